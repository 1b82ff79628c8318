"""The doors: each module decodes one kind of event, calls one use case and answers."""

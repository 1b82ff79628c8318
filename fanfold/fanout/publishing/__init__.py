"""From a request or a message to an accepted post: its time, its rate, its row and its content."""

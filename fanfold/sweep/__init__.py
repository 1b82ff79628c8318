"""The second net: what was accepted and then lost is sent again; only its door imports it."""

"""The safety net: sends again what was accepted and then lost; only its door imports it."""

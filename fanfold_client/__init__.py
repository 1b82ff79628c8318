"""The HTTP API in Python: `Fanfold(url, token)`. docs/clients.md shows it at work."""

from fanfold_client.client import Entries, Fanfold
from fanfold_client.connections import pool_for
from fanfold_client.errors import Failed, NoAnswer, Refused

__all__ = ["Entries", "Failed", "Fanfold", "NoAnswer", "Refused", "pool_for"]

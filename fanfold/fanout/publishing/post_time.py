"""The time of a post: what its publisher may say of it, and what is stored. Pure."""

from fanfold import times
from fanfold.errors import BadInput


def stored_ms(published_at: str | None, accepted_at: int) -> int:
    """The time to be stored, in epoch milliseconds: a later one is clamped to the acceptance."""
    return min(times.to_ms(published_at), accepted_at) if published_at else accepted_at


def check_is_kept(expires_at: int, accepted_at: int, retention_days: int) -> None:
    """Raise `BadInput` for a post whose entries end, at an epoch second, before it is accepted."""
    if expires_at * 1000 <= accepted_at:
        raise BadInput(
            f"'published_at' is more than {retention_days} days ago, longer than "
            "timelines keep an entry; leave such a post out."
        )

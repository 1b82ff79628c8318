"""Times as UTC text of fixed width with milliseconds, which sorts by time."""

import re
from datetime import UTC, datetime, timedelta

from fanfold.errors import BadInput

WIDTH = len("2026-11-20T18:00:00.123Z")
_SHAPE = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_text(epoch_ms: int) -> str:
    """Write epoch milliseconds as `2026-11-20T18:00:00.123Z`."""
    instant = _EPOCH + epoch_ms * _MILLISECOND
    return f"{instant:%Y-%m-%dT%H:%M:%S}.{instant.microsecond // 1000:03d}Z".rjust(WIDTH, "0")


def to_ms(text: str, *, field: str = "published_at") -> int:
    """Read `2026-11-20T18:00:00.123Z`; raises `BadInput`, naming `field`, for anything else."""
    try:
        if not _SHAPE.fullmatch(text):
            raise ValueError(text)
        return (datetime.fromisoformat(text) - _EPOCH) // _MILLISECOND
    except ValueError:
        raise BadInput(
            f"'{field}' is not a UTC time with milliseconds; "
            "write it like 2026-11-20T18:00:00.123Z."
        ) from None

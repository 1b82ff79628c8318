"""Times as UTC text of fixed width with milliseconds, which sorts by time."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache

from fanfold.errors import BadInput

# A request yields to another one of its user that was received this much later. The clocks that
# stamp requests differ by less, and a client that changes its mind takes longer.
OVERTAKEN_MS = 1_000
WIDTH = len("2026-11-20T18:00:00.123Z")
# A date-time of RFC 3339 (section 5.6), whose `T` and `Z` may be in lower case. Versions of Python
# differ in what else `datetime.fromisoformat` reads.
_RFC_3339 = (
    r"(\d{4})-(\d{2})-(\d{2})[Tt]([01]\d|2[0-3]):(\d{2}):(\d{2})(?:\.(\d+))?"
    r"(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))"
)
_LEAP_SECOND = 60
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def to_text(epoch_ms: int) -> str:
    """Write epoch milliseconds as `2026-11-20T18:00:00.123Z`."""
    instant = _EPOCH + epoch_ms * _MILLISECOND
    return instant.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def is_text(text: str) -> bool:
    """Whether `to_text` wrote this."""
    try:
        return to_text(_ms_of(text)) == text
    except (ValueError, OverflowError):
        return False


def to_ms(text: str, *, field: str = "published_at") -> int:
    """Read a time of RFC 3339 as epoch milliseconds; a finer fraction is cut off.

    A leap second is read as the last millisecond before it, since epoch time has no room for it.
    Raises `BadInput`, naming `field`, for anything else, and for what is not in the years 1 to 9999
    of UTC.
    """
    try:
        return _ms_of(text)
    except (ValueError, OverflowError):
        raise BadInput(
            f"'{field}' is not a time of RFC 3339; "
            "write it like 2026-11-20T18:00:00.123Z or 2026-11-20T20:00:00+02:00."
        ) from None


def from_date_or_time(text: str, *, field: str) -> str:
    """The text of a time of RFC 3339, or of the beginning of a date in UTC; raises `BadInput`."""
    is_date = len(text) == len("2026-11-20")
    try:
        return to_text(to_ms(f"{text}T00:00:00Z" if is_date else text))
    except BadInput:
        raise BadInput(
            f"'{field}' is neither a time of RFC 3339 nor a date; write it like 2026-11-20, "
            "2026-11-20T18:00:00.123Z or 2026-11-20T20:00:00%2B02:00: "
            "in an address, a + is sent as %2B."
        ) from None


@cache
def _pattern() -> re.Pattern[str]:
    """Compiled at its first use: most cold starts of `timeline` and DELIVER do not wait for it."""
    return re.compile(_RFC_3339, re.ASCII)


def _ms_of(text: str) -> int:
    match = _pattern().fullmatch(text)
    if not match:
        raise ValueError(text)
    year, month, day, hour, minute, second = map(int, match.groups()[:6])
    fraction, sign, hours, minutes = match.groups(default="0")[6:]
    is_leap_second = second == _LEAP_SECOND
    local = datetime(year, month, day, hour, minute, 59 if is_leap_second else second, tzinfo=UTC)
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    instant = local + offset if sign == "-" else local - offset
    if is_leap_second:
        after = instant + timedelta(seconds=1)
        if (after.day, after.hour, after.minute) != (1, 0, 0):
            raise ValueError(text)  # they are inserted only at the end of a month of UTC
        fraction = "999"
    return (instant - _EPOCH) // _MILLISECOND + int(fraction[:3].ljust(3, "0"))

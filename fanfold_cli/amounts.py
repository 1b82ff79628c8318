"""Durations and prices as people read them."""

import math

# Smaller amounts are shown as less than this.
LEAST_DOLLARS = 0.00001


def duration(seconds: float) -> str:
    """Such as `6.6 s`, `5 min 0 s`, `1 h 3 min`."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def dollars(amount: float) -> str:
    """Cents, or the first two digits that are not zero: `$6.28`, `$0.000068`."""
    if amount < LEAST_DOLLARS:
        return f"<${LEAST_DOLLARS:.5f}"
    digits = max(2, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"

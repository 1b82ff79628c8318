"""What the functions report about the growth of publishers: a log line and a metric."""

from __future__ import annotations

from fanfold import names
from fanfold.follows.sharding import NotGrown, Shards
from functions._metrics import count
from functions._worker import logger


def report_growth(publisher_id: str, what: Shards | NotGrown) -> None:
    """Log a growth, or the reason against one, and count it."""
    if isinstance(what, NotGrown):
        logger.info("A publisher does not grow.", publisher_id=publisher_id, why=what.reason)
        count(names.GROWTHS_REFUSED, 1)
    else:
        logger.warning(
            "A publisher has grown.",
            publisher_id=publisher_id,
            level=what.level,
            follows_per_second=what.history[-1].rate,
        )
        count(names.GROWTHS, 1)

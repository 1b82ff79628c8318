"""What PLAN reports about channels: a log line, and a metric where there is no room."""

from __future__ import annotations

from fanfold import names
from fanfold.channels.delivery import Choice
from functions._metrics import count
from functions._worker import logger


def report_choice(publisher_id: str, followers: int, choice: Choice) -> None:
    """Log that a publisher got a channel, or that there was no room for one, and count that."""
    if choice is Choice.REFUSE:
        logger.warning(
            "A publisher gets no channel: there is no room for more.",
            publisher_id=publisher_id,
            followers=followers,
        )
        count(names.CHANNELS_REFUSED, 1)
    else:
        logger.warning("A publisher has a channel.", publisher_id=publisher_id, followers=followers)

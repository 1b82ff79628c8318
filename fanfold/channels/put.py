"""Puts a post into its publisher's channel, with retries."""

from __future__ import annotations

from fanfold import clock
from fanfold.aws.retries import BATCH, is_transient
from fanfold.channels.head import partition_of
from fanfold.errors import TryLater
from fanfold.timeline.entries import Entries, Entry


def put(entries: Entries, entry: Entry) -> None:
    """Put an entry into the channel of its publisher; idempotent.

    A batch of one is never left unprocessed by a throttle: DynamoDB then refuses the call. Raises
    `TryLater` if the table goes on refusing it.
    """
    channel = [partition_of(entry.publisher_id)]
    for _ in clock.tries(*BATCH):
        try:
            if not entries.push(entry, channel):
                return
        except Exception as error:
            if not is_transient(error):
                raise
    raise TryLater(f"The channel of '{entry.publisher_id}' takes no entry; try again.")

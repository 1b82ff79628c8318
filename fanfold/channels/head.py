"""The head: which publishers have a channel, in one row. Values and decisions; no I/O.

A channel is one partition of the timelines table with the posts of one publisher, which all of its
followers read, in place of an entry for each of them. Every page reads the head, so it is one row,
and short: at most `MOST` channels, active and demoted ones together.

* `version` rises when a channel is added, to the epoch millisecond or further. A reader's row says
  up to which version it knows which of the channels belong to publishers that the reader follows.
* `revision` rises with every change, so that of two readings of the row one is the later.
* `seq` of a channel is raised after each post that is put into it, and before that post's fan-out
  is complete. What a container has read of a channel is good while its `seq` is the same.
* `last` of a channel is the key that raised its `seq` last, to `last_seq`. A container that is one
  `seq` behind adds this key, and reads nothing. For any other `seq`, `last` says nothing: PLAN of
  the version before raises `seq` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fanfold import invariants
from fanfold.aws.items import Item, get_number, get_text
from fanfold.timeline import marks

# The key of the row in the publishers table, and the beginning of a channel's key in the timelines
# table. No id contains it.
HEAD = "#channels"
_SIGN = "#"
# In real follow graphs, the 64 publishers with the most followers have about half of all edges. A
# reader who follows all of them reads 64 channels in a cold container; and a head of 64 has about
# 5 KB, which each post in a channel writes again.
MOST = 64
# A demoted channel is readable until its last entry has expired, and this much longer, like a mark
# of an unfollow.
MARGIN_DAYS = marks.MARGIN_DAYS


class Channel(NamedTuple):
    """One publisher's channel."""

    publisher_id: str
    version: int  # the head's when the channel was added
    seq: int = 0  # how many times a post was put into it
    followers: int = 0  # the publisher's, estimated when it was added
    until: int = 0  # epoch second until which a demoted one is readable; 0 while it takes posts
    last: str = ""  # the key that raised `seq` last, unless that is long ago

    @property
    def is_active(self) -> bool:
        """Whether new posts go into it."""
        return not self.until

    @property
    def key(self) -> str:
        """The channel's key in the head."""
        return key_of(self.publisher_id)

    @property
    def tag(self) -> tuple[int, int]:
        """It changes whenever a post may have been put into the channel."""
        return self.version, self.seq


class Head(NamedTuple):
    """The row; without one, nobody has ever had a channel."""

    version: int = 0
    revision: int = 0
    channels: Mapping[str, Channel] = {}  # by `key_of`

    def of(self, publisher_id: str) -> Channel | None:
        """The channel of a publisher, active or demoted; None if there is none."""
        return self.channels.get(key_of(publisher_id))

    @property
    def is_full(self) -> bool:
        return len(self.channels) >= MOST

    def later(self, other: Head) -> Head:
        """The later of two readings of the row: an eventual read may go back in time."""
        return other if other.revision > self.revision else self


def partition_of(publisher_id: str) -> str:
    """The partition of a publisher's channel among the timelines, in the place of a user's id."""
    return _SIGN + publisher_id


def key_of(publisher_id: str) -> str:
    """The channel of a publisher in the head: its mark, as 16 hex digits."""
    return marks.hash_of(publisher_id).hex()


def readable_until(now_ms: int, retention_days: int) -> int:
    """The epoch second until which a channel that is demoted now stays readable."""
    return -(-now_ms // 1000) + (retention_days + MARGIN_DAYS) * marks.DAY_SECONDS


def head_of(item: Item) -> Head:
    """The head in an item of the publishers table, as either client answers it; or no head."""
    rows = item.get("channels", {}).get("M", {})
    head = Head(
        version=get_number(item, "version"),
        revision=get_number(item, "revision"),
        channels={key: _channel_of(row["M"]) for key, row in rows.items()},
    )
    for key, channel in head.channels.items():
        told, whose = get_number(rows[key]["M"], "last_seq"), channel.publisher_id
        invariants.check("channel_key", key == channel.key, publisher_id=whose)
        invariants.check("channel_version", channel.version <= head.version, publisher_id=whose)
        invariants.check("channel_last", told <= channel.seq, publisher_id=whose)
    return head


def _channel_of(row: Item) -> Channel:
    is_told = get_number(row, "last_seq") == get_number(row, "seq")
    return Channel(
        publisher_id=get_text(row, "id"),
        version=get_number(row, "v"),
        seq=get_number(row, "seq"),
        followers=get_number(row, "followers"),
        until=get_number(row, "until"),
        last=get_text(row, "last") if is_told else "",
    )

"""Checks of each row, and of its agreement with other rows."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from fanfold import json_text, names, times
from fanfold.aws.items import get_number
from fanfold.channels.head import partition_of
from fanfold.fanout.row import ABANDONED, COMPLETE, ENTRIES_EXPIRE_AT
from fanfold.follows import ring
from fanfold.follows.follows_table import TOMBSTONE_SECONDS
from fanfold.follows.relation import UNFOLLOWED
from fanfold.ids import split_sort_key
from fanfold.names import EXPIRES_AT
from fanfold.settings import Settings
from fanfold.timeline.posts import OUTLIVES_SECONDS
from proof.simulation.checks.evidence import Evidence
from proof.simulation.faults.faults import MAX_SKEW_MS
from proof.simulation.observed.channels import is_channel
from proof.simulation.observed.observers import pair_of
from proof.simulation.world.world import accepted_ms

DAY_SECONDS = 24 * 60 * 60
RETENTION_SECONDS = Settings.retention_days * DAY_SECONDS
# By which the clocks of doors, queues and functions differ at most, and messages wait in a call.
CLOCKS_SECONDS = 60


def posts_are_stored_as_they_were_sent(found: Evidence) -> Iterator[str]:
    """A post has the body of one of its publishes or edits, and the key and expiry of its time."""
    for ref_id, row in found.posts.items():
        publishes = found.history.of("publish", "send", subject=ref_id)
        if "deleted_at" in row:
            if not found.history.tried_to_retract(ref_id):
                yield f"{ref_id} is retracted, and nobody asked for that."
            if row.keys() - {"ref_id", "publisher_id", "accepted_at", "deleted_at", EXPIRES_AT}:
                yield f"{ref_id} is retracted, and still has its content."
            given = found.history.given_times.get(ref_id)
            since_ms = times.to_ms(given) if given else math.inf
            if not _lasts(found, row, RETENTION_SECONDS + OUTLIVES_SECONDS, since_ms):
                yield f"The tombstone of {ref_id} ends at another time than its retention."
            continue
        edits = found.history.edits.of(ref_id, row["publisher_id"]["S"])
        sent = [*(each.content for each in publishes), *(each.content for each in edits)]
        if json.loads(row["body"]["S"]) not in sent:
            yield f"{ref_id} has a body that nobody sent."
        first = row.get("first_body_hash", {}).get("S")
        if first not in {json_text.digest(each.content) for each in publishes}:
            yield f"{ref_id} has the hash of a body that was not published."
        at = found.history.given_times.get(ref_id, row["accepted_at"]["S"])
        if row["sort_key"]["S"] != f"{at}#{ref_id}":
            yield f"{ref_id} has another sort key than that of its time."
        wanted = times.to_ms(at) // 1000 + RETENTION_SECONDS + OUTLIVES_SECONDS
        if get_number(row, EXPIRES_AT) != wanted:
            yield f"The post {ref_id} expires at another time than its retention's end."


def _lasts(found: Evidence, row: dict[str, Any], seconds: int, since_ms: float = math.inf) -> bool:
    """Whether a row expires so many seconds after a moment of the run, or since `since_ms`."""
    clock = found.world.clock
    begun, since = get_number(row, EXPIRES_AT) - seconds, min(since_ms, clock.start_ms) / 1000
    return since - CLOCKS_SECONDS <= begun <= clock.now + CLOCKS_SECONDS


def what_was_retracted_leaves_a_tombstone(found: Evidence) -> Iterator[str]:
    """An acknowledged retraction, or a processed message, leaves a tombstone."""
    failed = found.failed()
    for retract in found.history.of("retract", "unsend"):
        is_done = retract.status == 204 or (
            retract.kind == "unsend" and f'"{retract.subject}"' not in failed
        )
        if is_done and "deleted_at" not in found.posts.get(retract.subject, {}):
            yield f"{retract.subject} was retracted, and has no tombstone."


def fanouts_agree_with_their_posts(found: Evidence) -> Iterator[str]:
    """A row of the ledger has the publisher and the times of its post."""
    for ref_id, row in found.fanouts.items():
        post = found.posts.get(ref_id)
        if post is None:
            # Only accepted posts are promised; a person may end others.
            publish = found.publishes.get(ref_id)
            if row["state"]["S"] == ABANDONED and publish and not publish.is_accepted:
                continue
            yield f"{ref_id} is {row['state']['S']}, and its post is gone."
            continue
        for name in ("publisher_id", "accepted_at", "sort_key"):
            if name in post and row[name] != post[name]:
                yield f"{ref_id} has another {name} in the ledger than in its post."
        if "deleted_at" not in post and row[EXPIRES_AT] != post[EXPIRES_AT]:
            yield f"The fan-out {ref_id} expires at another time than its post."
        if get_number(row, ENTRIES_EXPIRE_AT) + OUTLIVES_SECONDS != get_number(row, EXPIRES_AT):
            yield f"The entries of {ref_id} are to expire at another time than its retention's end."
        if row["state"]["S"] != COMPLETE:
            continue
        if "completed_at" not in row:
            yield f"{ref_id} is complete, and does not say since when."
        elif times.to_ms(row["completed_at"]["S"]) < accepted_ms(row) - MAX_SKEW_MS - found.skew_ms:
            yield f"{ref_id} was complete before it was accepted."
        if row.get("resume", {"M": {}})["M"]:
            yield f"{ref_id} is complete, and has something to resume."


def entries_agree_with_their_fanouts(found: Evidence) -> Iterator[str]:
    """An entry has the key, the publisher and the time to live that the ledger says.

    So has an entry of a channel, which lies in the partition of its publisher.
    """
    for row in (*found.timeline, *found.channel_entries):
        user, ref_id = row["user_id"]["S"], row["sort_key"]["S"].partition("#")[2]
        fanout = found.fanouts.get(ref_id)
        if fanout is None:
            continue  # another check reports it
        if row["sort_key"] != fanout["sort_key"]:
            yield f"{user} has {ref_id} under another sort key than the ledger's."
        if row["publisher_id"] != fanout["publisher_id"]:
            yield f"{user} has {ref_id} of another publisher than the ledger's."
        if row.get(EXPIRES_AT) != fanout[ENTRIES_EXPIRE_AT]:
            yield f"The entry {ref_id} of {user} expires at another time than the ledger's."
        if is_channel(user) and user != partition_of(row["publisher_id"]["S"]):
            yield f"{ref_id} lies in the channel {user} of another publisher."


def channels_are_in_the_head(found: Evidence) -> Iterator[str]:
    """A channel is readable while it has entries, and the head counts all that are complete.

    No channel, and no post in the ledger, is of a later head.
    """
    head = found.head
    ends: dict[str, list[int]] = defaultdict(list)  # of what is complete in a channel
    for row in found.channel_entries:
        if found.is_in_channel(split_sort_key(row["sort_key"]["S"])[1]):
            ends[row["publisher_id"]["S"]].append(get_number(row, EXPIRES_AT))
    for publisher, times_s in ends.items():
        channel = head.of(publisher)
        if channel is None:
            yield f"{publisher} has posts in a channel, and the head does not know it."
            continue
        if not channel.is_active and channel.until < max(times_s):
            yield f"The channel of {publisher} ends before its posts."
        if channel.seq < len(times_s):
            yield f"The head counts {channel.seq} posts of {publisher}, of {len(times_s)}."
    for key, channel in head.channels.items():
        if key != channel.key:
            yield f"The channel of {channel.publisher_id} lies under another key than its mark."
        if channel.version > head.version:
            yield f"The channel of {channel.publisher_id} is of a later version than the head."
    for ref_id, row in found.fanouts.items():
        if get_number(row, "head_revision") > head.revision:
            yield f"{ref_id} was told by a later head than there is."


def edges_lie_where_they_are_read(found: Evidence) -> Iterator[str]:
    """An edge lies in the shard of its position, at a level that its publisher has reached."""
    world = found.world
    levels = {
        row["publisher_id"]["S"]: get_number(row, "level") for row in world.rows(names.PUBLISHERS)
    }
    for edge in world.rows(names.FOLLOWERS):
        user, publisher = pair_of(edge)
        level, _, shard = edge["shard_id"]["S"].rpartition("#")[2].partition(".")
        position = ring.position_of(edge["edge"]["S"])
        is_placed = position == ring.position(user)
        if not is_placed or int(shard) != ring.shard_of(position, int(level)):
            yield f"The edge of {user} at {publisher} lies where it does not belong."
        if int(level) > levels.get(publisher, 0):
            yield f"The edge of {user} at {publisher} lies above the publisher's level."


def follows_are_kept(found: Evidence) -> Iterator[str]:
    """An answered user has a row: a follow without an expiry, or a tombstone with one."""
    now_ms = found.world.clock.now_ms()
    rows = {(row["user_id"]["S"], row["publisher_id"]["S"]): row for row in found.pairs}
    known = {*rows, *found.world.damage.undone}
    for each in found.history.of("follow", "unfollow"):
        is_recent = now_ms - each.ended_ms < TOMBSTONE_SECONDS * 1000
        has_row = (each.user, each.subject) in known
        if each.is_acknowledged and is_recent and not has_row:
            yield f"{each.user} was answered about {each.subject}, and has no row."
    for (user, publisher), row in rows.items():
        is_kept = row["state"]["S"] != UNFOLLOWED or "shut" in row or "shuts" in row
        if is_kept and EXPIRES_AT in row:
            yield f"The follow of {publisher} by {user} is to expire."
        if not is_kept and EXPIRES_AT not in row:
            yield f"The tombstone of {user} at {publisher} never expires."
        if not is_kept and EXPIRES_AT in row and not _lasts(found, row, TOMBSTONE_SECONDS):
            yield f"The tombstone of {user} at {publisher} ends too early or too late."
        if get_number(row, "asked_at") > now_ms + 1000 * CLOCKS_SECONDS:
            yield f"{user} has asked about {publisher} in the future."


def rates_are_used_up_for_their_period_at_most(found: Evidence) -> Iterator[str]:
    """The follows of a user, and the posts of a publisher, use up a rate no further ahead."""
    world = found.world
    now_s = world.clock.now + CLOCKS_SECONDS
    for table, name, seconds in (
        (names.READERS, "follows_until_ns", DAY_SECONDS),
        (names.PUBLISHERS, "posts_until_ns", 60),
    ):
        for row in world.rows(table):
            if get_number(row, name) > (now_s + seconds) * 10**9:
                yield f"{row[table.partition_key]['S']} has used up a rate far into the future."

"""The evidence of a run for the checks: its tables, what callers see, and their history."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from random import Random
from typing import Any, NamedTuple

from fanfold import contract, names, times
from fanfold.channels import head_table
from fanfold.channels.head import head_of
from fanfold.channels.known_head import MOST_SECONDS
from fanfold.fanout.row import COMPLETE, VOID
from fanfold.follows.follows_table import is_of_list
from fanfold.ids import sort_key, split_sort_key
from proof.model.sqs.messages import Message
from proof.simulation.clients import audience_requests, climbs, reader_requests, requests
from proof.simulation.clients.bodies import content_of
from proof.simulation.clients.history import Operation, Pair
from proof.simulation.clients.readers import UnreadAnswer
from proof.simulation.clients.spans import Span
from proof.simulation.observed.channels import is_channel
from proof.simulation.oracle.audience import with_privacy
from proof.simulation.oracle.follows import Asked, Sighting, contradictions, surely
from proof.simulation.world.world import World

# Messages and requests are stamped in whole milliseconds; the clocks of a run are finer.
ROUNDING_MS = 1
# The share of runs whose timelines and lists are read in pages of two.
SMALL_PAGES = 0.15


@dataclass
class Publish:
    """One post as its publisher knows it."""

    ref_id: str
    publisher: str
    operations: list[Operation]
    status: dict[str, Any] | None  # what the publisher is told at the end
    skew_ms: float

    @property
    def is_accepted(self) -> bool:
        """Whether its delivery is owed: it was answered with 202, or SQS took it."""
        return any(each.answer or each.kind == "send" for each in self.operations if each.tries)

    @property
    def state(self) -> str:
        return self.status["state"] if self.status else ""

    def accepted_at(self) -> set[str]:
        """All times of acceptance that its publisher was told."""
        answers = [each.answer for each in self.operations if each.answer]
        return {each["accepted_at"] for each in (*answers, self.status) if each}

    def tries_at(self, accepted_at: str) -> list[Span]:
        """The requests and messages that may have been accepted at this time."""
        at_ms, margin = times.to_ms(accepted_at), self.skew_ms + ROUNDING_MS
        return [
            each
            for operation in self.operations
            for each in operation.tries
            if each.begun_ms - margin <= at_ms <= each.ended_ms + margin
        ]

    @cached_property
    def begun_ms(self) -> float:
        """When the accepted request or message began, in epoch milliseconds."""
        tries = [each for told in self.accepted_at() for each in self.tries_at(told)]
        every = [each for operation in self.operations for each in operation.tries]
        return min(each.begun_ms for each in tries or every)


class Landed(NamedTuple):
    """An entry that a user's pages may show from `may_ms` on, and must show from `must_ms` on."""

    sort_key: str
    ref_id: str
    publisher: str
    may_ms: float
    must_ms: float

    def or_before(self, other: Landed) -> Landed:
        """The same entry, which lies in two places."""
        may_ms, must_ms = min(self.may_ms, other.may_ms), min(self.must_ms, other.must_ms)
        return self._replace(may_ms=may_ms, must_ms=must_ms)


@dataclass
class Seen:
    """What users and publishers are shown at the end, over HTTP."""

    begun_ms: float = 0.0
    at_ms: float = 0.0
    shown: dict[str, list[dict[str, Any]]] = field(default_factory=dict)  # entries by user
    # By user: the publishers, and since when each is followed.
    following: dict[str, dict[str, str]] = field(default_factory=dict)
    requested: dict[str, dict[str, str]] = field(default_factory=dict)  # the same of requests
    requests: dict[str, list[str]] = field(default_factory=dict)  # who asks each publisher
    blocks: dict[str, list[str]] = field(default_factory=dict)  # whom each user blocks
    status: dict[str, dict[str, Any] | None] = field(default_factory=dict)  # by `ref_id`
    muted: dict[str, set[str]] = field(default_factory=dict)  # publishers by user
    # What is unread by user, the marker, and the sort keys of all entries, without content.
    unread: dict[str, tuple[UnreadAnswer, str, list[str]]] = field(default_factory=dict)

    def visible(self, user: str) -> set[str]:
        """The publishers whose posts the user's timeline shows."""
        return set(self.following.get(user, ())) - self.muted.get(user, set())


class Evidence:
    """The tables after a run, the answers over HTTP, and the history of operations."""

    def __init__(self, world: World) -> None:
        self.world, self.history = world, world.history
        self.skew_ms = abs(world.door_skew_ms)
        self.posts = {row["ref_id"]["S"]: row for row in world.rows(names.POSTS)}
        # A void row says that nothing was accepted.
        known = (row for row in world.fanouts() if row["state"]["S"] != VOID)
        self.fanouts = {row["fanout_id"]["S"]: row for row in known}
        rows = world.rows(names.TIMELINES)
        self.timeline = [row for row in rows if not is_channel(row["user_id"]["S"])]
        self.channel_entries = [row for row in rows if is_channel(row["user_id"]["S"])]
        # The posts in channels at the end: the publishers by `ref_id`.
        self.in_channels = {
            split_sort_key(row["sort_key"]["S"])[1]: row["publisher_id"]["S"]
            for row in self.channel_entries
        }
        self.head = head_of(world.row(names.PUBLISHERS, head_table.KEY))
        following = world.rows(names.FOLLOWING)
        self.pairs = [row for row in following if not is_of_list(row)]
        self.lists = [row for row in following if is_of_list(row)]
        # Before anybody reads the timelines, which brings rows up to date.
        self.readers = world.rows(names.READERS)
        self.sort_keys: dict[tuple[str, str], list[str]] = {}  # by user and `ref_id`
        for row in self.timeline:
            user, key = row["user_id"]["S"], row["sort_key"]["S"]
            self.sort_keys.setdefault((user, split_sort_key(key)[1]), []).append(key)
        self.publishers_of = {
            split_sort_key(row["sort_key"]["S"])[1]: row["publisher_id"]["S"]
            for row in self.timeline
        }
        self.entries = Counter({each: len(keys) for each, keys in self.sort_keys.items()})
        # Entries that only RELATE has written, after a follow; fan-outs wrote all others.
        observer = world.observer
        self.only_filled = {
            each
            for each, keys in self.sort_keys.items()
            if all(
                observer.filled[each[0], key] > observer.written[each[0], key] == 0 for key in keys
            )
        }

    @cached_property
    def landed(self) -> dict[str, list[Landed]]:
        """Each user's entries: in their timeline, or in a channel that they may have followed."""
        observer, channels = self.world.observer, self.world.channels
        # "While the head is throttled, for ten": batches leave it unprocessed then.
        may_be_throttled = self.world.faults.rates["partial"] > 0
        head_ms = 1_000 * MOST_SECONDS if may_be_throttled else 0.0
        landed: dict[str, dict[str, Landed]] = {}
        for (user, key), at_ms in observer.landed_ms.items():
            own = Landed(key, split_sort_key(key)[1], observer.publishers[user, key], at_ms, at_ms)
            landed.setdefault(user, {})[key] = own
        for key, publisher, ref_id, at_ms in channels.shared():
            since_ms = channels.complete_ms.get(ref_id, math.inf) + head_ms
            shared = Landed(key, ref_id, publisher, at_ms, since_ms)
            for user, followed in self.history.relations:
                if followed == publisher:
                    known = landed.setdefault(user, {})
                    known[key] = shared.or_before(known.get(key, shared))
        return {user: list(entries.values()) for user, entries in landed.items()}

    def is_in_channel(self, ref_id: str) -> bool:
        """Whether a post was delivered by its publisher's channel and is still there."""
        return ref_id in self.world.channels.complete_ms and ref_id in self.in_channels

    def lacks_its_post(self, message: Message) -> bool:
        """Whether a dead letter is an edit that used all its tries, because its post never came.

        Or an approval whose request did not; the observer checks that each try failed for that.
        """
        content = content_of(message.body)
        if content.get("type") == contract.FOLLOWER_APPROVED:
            return bool(message.dead_letter_source)
        is_edit = content.get("type") == contract.POST_UPDATED
        return is_edit and bool(message.dead_letter_source) and content["ref_id"] not in self.posts

    def may_read(self, user: str, ref_id: str) -> bool:
        """Whether a post is in the user's timeline or in a channel that they may follow."""
        relation = self.history.relations.get((user, self.in_channels.get(ref_id, "")))
        is_shared = relation is not None and any(request.follows for request in relation.requests)
        return is_shared or (user, ref_id) in self.entries

    @cached_property
    def seen(self) -> Seen:
        """What everybody is shown after the run."""
        world, seen = self.world, Seen()
        is_small = Random(f"{world.seed} pages").random() < SMALL_PAGES
        limit = 2 if is_small else 100

        def look() -> None:
            for user in self.history.users():
                seen.shown[user] = requests.read(world, user, limit=limit)
                seen.following[user] = requests.following(world, user, limit=limit)
                self._look_as(user, seen, limit)
            climbs.finish(world)
            for ref_id, (first, *_) in self._operations.items():
                seen.status[ref_id] = requests.status(world, first.user, ref_id)
            if self.history.edits.by_post:
                for ref_id, (first, *_) in self._operations.items():
                    requests.show(world, self._reader_of(first.user), ref_id)
                for publisher in self.publishers:
                    reader = self._reader_of(publisher)
                    requests.read_feed(world, reader, publisher, limit=limit)
            for publisher in sorted(self.history.audience.deciding):
                audience_requests.ask_privacy(world, publisher)
                seen.requests[publisher] = audience_requests.requests_of(
                    world, publisher, limit=limit
                )
                for user in ("reader", *self.history.users()):
                    audience_requests.look(world, user, publisher, limit=limit)
                    audience_requests.ask_relation(world, user, publisher)
            if world.has_audiences:
                for user in sorted({user for user, _ in self.history.relations}):
                    seen.blocks[user] = audience_requests.blocked_by(world, user, limit=limit)

        world.clock.advance(60.0)  # the caches of `timeline` expire
        seen.begun_ms = world.clock.now_ms()
        world.run(lambda each: each.start_client("reader", look))
        seen.at_ms = world.clock.now_ms()
        return seen

    def _reader_of(self, publisher: str) -> str:
        """Who surely sees all posts of a publisher."""
        return publisher if publisher in self.history.audience.deciding else "reader"

    def _look_as(self, user: str, seen: Seen, limit: int) -> None:
        """Read what only some users have: mutes, a marker."""
        world, readers = self.world, self.history.readers
        if world.has_audiences:
            seen.requested[user] = audience_requests.requested(world, user, limit=limit)
        if readers.has_muted(user):
            seen.muted[user] = reader_requests.muted(world, user, limit=limit)
        if readers.has_marked(user):
            marker = reader_requests.marker(world, user)
            unread = reader_requests.unread(world, user)
            ids = requests.read(world, user, limit=limit, hydrate=False)
            keys = [sort_key(each["published_at"], each["ref_id"]) for each in ids]
            if marker is not None and unread is not None:
                seen.unread[user] = unread, marker, keys

    @cached_property
    def _operations(self) -> dict[str, list[Operation]]:
        found: dict[str, list[Operation]] = {}
        for each in self.history.of("publish", "send"):
            if each.tries:
                found.setdefault(each.subject, []).append(each)
        return found

    @cached_property
    def publishers(self) -> list[str]:
        """All who tried to publish."""
        return sorted({each[0].user for each in self._operations.values()})

    @cached_property
    def publishes(self) -> dict[str, Publish]:
        """All posts that somebody tried to publish, by `ref_id`."""
        return {
            ref_id: Publish(ref_id, each[0].user, each, self.seen.status[ref_id], self.skew_ms)
            for ref_id, each in self._operations.items()
        }

    @cached_property
    def contradictions(self) -> list[tuple[Pair, Asked | Sighting]]:
        """Observations that no order of the users' requests explains."""
        return [
            (pair, what)
            for pair in self.history.relations
            for what in contradictions(
                self.asked(pair, of_reads=False), self._sightings(*pair), skew_ms=self.skew_ms
            )
        ]

    def asked(self, pair: Pair, *, of_reads: bool = True) -> list[Asked]:
        """What was asked of a relation, as rows and reads see it, or else deliveries, later."""
        if (relation := self.history.relations.get(pair)) is None:
            return []
        requests = relation.settled_requests()
        if of_reads:
            requests = [replace(request, seen_by=math.nan) for request in requests]
        choices = self.history.audience.choices_of(pair[1])
        if not choices:
            return requests
        return with_privacy(requests, choices, skew_ms=self.skew_ms, of_reads=of_reads)

    def _sightings(self, user: str, publisher: str) -> list[Sighting]:
        """Observations of a user and a publisher: posts that arrived or did not, and the list."""
        at_ms, observer = self.seen.at_ms, self.world.observer
        found = [Sighting(at_ms, at_ms, publisher in self.seen.following.get(user, ()))]
        for publish in self._by_publisher.get(publisher, ()):
            begun_ms, keys = publish.begun_ms, self.sort_keys.get((user, publish.ref_id))
            if keys:
                # Its edge was read before the entry was first written.
                written = (observer.entered_ms.get((user, key), at_ms) for key in keys)
                ended_ms = max(begun_ms, min(written))
                # RELATE reads the follow before the posts.
                filled = (observer.filled_since_ms.get((user, key), begun_ms) for key in keys)
                begun_ms = min(begun_ms, *filled)
                if not self._has_other_edge((user, publisher), begun_ms, ended_ms):
                    found.append(Sighting(begun_ms, ended_ms, True, what=publish.ref_id))
            elif self.is_due(publish) and not self.is_in_channel(publish.ref_id):
                ended_ms = max(begun_ms, self._completed_ms(user, publish.ref_id))
                if not self.world.damage.touches((user, publisher), begun_ms, ended_ms):
                    found.append(Sighting(begun_ms, ended_ms, False, what=publish.ref_id))
        return found

    def _completed_ms(self, user: str, ref_id: str) -> float:
        """When the service first said that the delivery is complete: it reads no more edges.

        If a restore has lost the entry, the last completion counts: the entry is written again only
        for users who still follow then.
        """
        observer = self.world.observer
        first_ms = observer.completed_ms.get(ref_id, self.seen.at_ms)
        if (user, ref_id) in self.world.damage.lost_entries:
            return observer.completed_last_ms.get(ref_id, first_ms)
        return first_ms

    def _has_other_edge(self, pair: Pair, begun_ms: float, ended_ms: float) -> bool:
        """Whether there may have been an unrequested edge: put late, or by accident."""
        is_late = self.history.relations[pair].has_late_edge(begun_ms, ended_ms)
        return is_late or self.world.damage.touches(pair, begun_ms, ended_ms)

    @cached_property
    def _by_publisher(self) -> dict[str, list[Publish]]:
        found: dict[str, list[Publish]] = {}
        for publish in self.publishes.values():
            found.setdefault(publish.publisher, []).append(publish)
        return found

    def is_due(self, publish: Publish) -> bool:
        """Whether every follower must have a post, because the service says that it is delivered.

        `posts.every_accepted_post_is_delivered_or_visibly_not` checks the other posts.
        """
        # A retraction that was tried may have taken effect if the post is not shown.
        is_there = publish.ref_id in self._shown or not self.history.tried_to_retract(
            publish.ref_id
        )
        return publish.state == COMPLETE and is_there

    @cached_property
    def _shown(self) -> set[str]:
        return {entry["ref_id"] for shown in self.seen.shown.values() for entry in shown}

    def may_follow(self, pair: Pair, publish: Publish) -> bool:
        """Whether a user ever requested to follow, or has an edge by accident."""
        relation = self.history.relations.get(pair)
        has_asked = relation is not None and any(request.follows for request in relation.requests)
        return has_asked or self.world.damage.touches(pair, publish.begun_ms, self.seen.at_ms)

    def is_sure(self, pair: Pair, sighting: Sighting) -> bool:
        """Whether the requests alone contradict a sighting, without the other sightings."""
        said = surely(self.asked(pair), sighting.begun, sighting.ended, skew_ms=self.skew_ms)
        return said is (not sighting.follows)

    def has_changed(self, ref_id: str) -> bool:
        """Whether anybody's edge may have changed during the delivery of a complete post.

        The delivery ends here with its last completion. A worker with a copy of an order may write
        after the first one. And if a restore has lost the post's row in the ledger, it is delivered
        again to current followers; a user who has unfollowed since keeps an entry that is not
        counted.
        """
        publish, observer = self.publishes.get(ref_id), self.world.observer
        if publish is None:
            return False
        written = (
            at_ms
            for (user, key), at_ms in observer.entered_ms.items()
            if split_sort_key(key)[1] == ref_id and (user, ref_id) not in self.only_filled
        )
        until_ms = max(observer.completed_last_ms[ref_id], max(written, default=0.0))
        begun_ms, publisher = publish.begun_ms, publish.publisher
        return self.world.damage.touches_any(publisher, begun_ms, until_ms) or any(
            relation.may_have_changed(begun_ms, until_ms)
            for pair, relation in self.history.relations.items()
            if pair[1] == publisher
        )

    def dropped(self) -> set[str]:
        """The bodies of dead letters that operators have dropped, and not restored."""
        return {body for body, _ in self.world.letters.lost}

    def failed(self) -> str:
        """The bodies of all dead letters, and of those that were dropped."""
        bodies = (message.body for _, message in self.world.dead_letters())
        return " ".join([*bodies, *sorted(self.dropped())])

    def written_again(self) -> int:
        """How many entries of stragglers may be written twice, after all tries of an order.

        An order without progress in all its hand-backs becomes a dead letter, and SWEEP resends its
        segment. If that order is handed back too, it waits for up to five minutes, longer than
        SWEEP waits before its next round. So two workers may hold the segment when the stragglers
        can be written at last. Other entries are written once, and none is written three times.
        """
        failed, hot = self.failed(), self.world.faults.hot
        return sum(
            times > 1 and user in hot and f'"fanout_id":"{split_sort_key(key)[1]}"' in failed
            for (user, key), times in self.world.observer.written.items()
        )

    def most_again(self) -> int:
        """How many entries may be written again, because several PLANs had the same post.

        Each PLAN but one may write the whole ring again: PLANs do not lock a post.
        """
        entries = Counter(ref_id for _, ref_id in self.entries)
        planners = self.world.observer.planners
        return sum((len(tasks) - 1) * entries[ref_id] for ref_id, tasks in planners.items())

    def may_be_sent_twice(self) -> bool:
        """Whether segments may have been sent twice without a fault.

        Two plans of the same millisecond are both sent. SWEEP may resend segments that wait in a
        resumed queue or a slow lane, and operators may resend.
        """
        triggers = self.world.triggers
        is_slow = triggers.was_paused or triggers.seconds_a_message > 0
        return is_slow or self.world.has_operators or self.world.observer.was_planned_twice

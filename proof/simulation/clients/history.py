"""The history of a run as its callers know it: their requests and the answers.

It also has the fate of messages, as observed at the queues.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanfold import contract, names
from fanfold.messages import first_sent_at
from proof.model.sqs.messages import Message
from proof.model.sqs.queues import DELETED
from proof.simulation.clients.audience import AudienceHistory
from proof.simulation.clients.edits import Edits
from proof.simulation.clients.readers import ReaderHistory
from proof.simulation.clients.spans import Span
from proof.simulation.oracle.follows import BEGINS, Asked, Verb

if TYPE_CHECKING:
    from proof.simulation.clients.climbs import Climb

Pair = tuple[str, str]  # user, publisher
# What a message asks for, of its user and publisher, and what that is for these two exchanged.
VERBS: dict[str, tuple[Verb, Verb | None]] = {
    contract.FOLLOW_ADDED: (Verb.FOLLOW, None),
    contract.FOLLOW_REMOVED: (Verb.UNFOLLOW, None),
    contract.FOLLOWER_APPROVED: (Verb.APPROVE, None),
    contract.FOLLOWER_REMOVED: (Verb.REMOVE, None),
    contract.USER_BLOCKED: (Verb.BLOCK, Verb.SHUT_OUT),
    contract.USER_UNBLOCKED: (Verb.UNBLOCK, Verb.LET_IN),
}
FOLLOWS = Verb.FOLLOW, Verb.APPROVED
IN_MESSAGES = re.compile("|".join(re.escape(f'"{each}"') for each in VERBS))
# A publisher who never had more followers has small posts: PLAN reads four for its estimate, so it
# has seen all of them.
FEW_FOLLOWERS = 3
# A request may retract a post that is accepted up to this much later: a second by the clocks that
# stamp them (docs/api.md), which may differ (`world.DOOR_SKEWS_MS`).
CLOCKS_MS = 1_000 + 250


@dataclass(eq=False)
class RetractAttempt:
    """One request to retract a post; it may continue after its client has given up."""

    asked_ms: float
    status: int = 0  # of the real end of its invocation
    is_over: bool = False  # all its writes have landed

    @property
    def is_vain(self) -> bool:
        """Whether it had no effect: 404 says that there was no post."""
        return self.status == 404 and self.is_over


@dataclass(eq=False)
class Operation:
    """A client's follow, publish and so on; without an answer, it ends at infinity."""

    kind: str
    user: str
    subject: str  # the publisher or the post
    begun: int  # in turns of the scheduler
    begun_ms: int
    ended: float = math.inf
    ended_ms: float = math.inf
    content: Any = None  # the body of a post
    status: int = 0  # of the last HTTP answer
    answer: Any = None
    tries: list[Span] = field(default_factory=list)  # its requests or messages to publish
    attempts: list[RetractAttempt] = field(default_factory=list)  # to retract

    @property
    def is_acknowledged(self) -> bool:
        return self.ended < math.inf


@dataclass(frozen=True)
class PutEdge:
    """An old edge that an invocation put: it stays until the invocation reads the row again.

    If the write landed after the invocation's time-out, the edge stays until RELATE reconciles the
    follow (docs/reliability.md).
    """

    work: Span
    at_ms: float


@dataclass(eq=False)
class Relation:
    """The history of one user and one publisher."""

    requests: list[Asked] = field(default_factory=list)  # each message, and each try of a request
    # Orders to RELATE: sent, and taken out of the queue. A dead letter does not end.
    orders: list[Span] = field(default_factory=list)
    reconciled: list[Span] = field(default_factory=list)  # invocations that finished
    puts: list[PutEdge] = field(default_factory=list)
    _cut_short: list[Asked] = field(default_factory=list)

    @property
    def has_user(self) -> bool:
        """Whether a user is in it who tried to follow or unfollow."""
        return any(each.verb in (*BEGINS, Verb.UNFOLLOW) for each in self.requests)

    def ends(self, request: Asked, now_ms: float, work: Span | None) -> None:
        """A request was answered, or a message left its queue.

        `work` is the invocation that did all of it; None if it was cut short or failed. After a
        failed message, a copy of it may end again.
        """
        request.ended = now_ms
        if request in self._cut_short:
            self._cut_short.remove(request)
        if work:
            self.reconciled.append(Span(work.begun_ms, now_ms))
        else:
            self._cut_short.append(request)

    def settled_requests(self) -> list[Asked]:
        """The requests, with the times from which on deliveries surely respect them."""
        for cut in self._cut_short:
            orders = [each for each in self.orders if cut.begun <= each.begun_ms <= cut.ended]
            if cut.is_import:  # it sends no orders; another import completes it
                orders = [Span(cut.begun)]
            cut.seen_by = self._settled_ms(cut.ended, orders)
        return self.requests

    def has_late_edge(self, begun_ms: float, ended_ms: float) -> bool:
        """Whether an edge that was put late may have existed at some time of an interval.

        Late: an unfollow had begun when it was put, and had not ended when its invocation began.
        It exists until that invocation reads the row again.
        """
        return any(
            put.at_ms <= ended_ms and self._is_late(put) and self._read_again_ms(put) >= begun_ms
            for put in self.puts
        )

    def may_have_changed(self, begun_ms: float, ended_ms: float) -> bool:
        """Whether the edge may have changed at some time of an interval."""
        return self.has_late_edge(begun_ms, ended_ms) or any(
            each.begun <= ended_ms and each.heeded_ms >= begun_ms
            for each in self.settled_requests()
        )

    def is_unsettled(self) -> bool:
        """Whether its edge may stay wrong, because orders to RELATE are dead letters."""
        return any(request.seen_by == math.inf for request in self.settled_requests()) or any(
            self._is_late(put) and self._read_again_ms(put) == math.inf for put in self.puts
        )

    def _is_late(self, put: PutEdge) -> bool:
        return any(
            not each.follows and each.begun <= put.at_ms and each.ended >= put.work.begun_ms
            for each in self.requests
        )

    def _read_again_ms(self, put: PutEdge) -> float:
        if put.at_ms <= put.work.ended_ms < math.inf:
            return put.work.ended_ms
        orders = [each for each in self.orders if each.begun_ms <= put.at_ms <= each.ended_ms]
        return self._settled_ms(put.at_ms, orders)

    def _settled_ms(self, since_ms: float, orders: Iterable[Span]) -> float:
        """When the edge is surely reconciled after work that was cut short.

        Any later invocation that finishes does so; at the latest, all of the work's own orders to
        RELATE, which were sent before it changed anything.
        """
        by_orders = max((order.ended_ms for order in orders), default=since_ms)
        by_others = min(
            (each.ended_ms for each in self.reconciled if each.begun_ms >= since_ms),
            default=math.inf,
        )
        return max(since_ms, min(by_orders, by_others))


@dataclass(frozen=True)
class BackfillPass:
    """A pass of RELATE over a publisher's newest posts, the first or the second."""

    user: str
    publisher: str
    sent_ms: float
    begun_ms: float  # of the invocation
    ended_ms: float
    is_second: bool


@dataclass(frozen=True)
class Page:
    """A page that a reader was shown."""

    user: str
    begun_ms: int  # when it was requested
    entries: list[dict[str, Any]]
    is_short: bool = False  # and not the last one
    ended_ms: float = math.inf  # when it was answered
    # All that is shown of the sort keys from the first of these on, and before the second.
    covers: tuple[str, str] = ("", "")

    def has_room_for(self, sort_key: str) -> bool:
        """Whether the entry belongs on this page, if it is shown at all."""
        return self.covers[0] <= sort_key < self.covers[1]


@dataclass(frozen=True)
class PostRead:
    """What a user was shown of one post; None if it was not found."""

    user: str
    ref_id: str
    begun_ms: float
    post: dict[str, Any] | None


@dataclass
class History:
    """All operations of a run, in order of their starts."""

    operations: list[Operation] = field(default_factory=list)
    answers: Counter[tuple[str, int]] = field(default_factory=Counter)  # by route and HTTP status
    readings: list[list[Page]] = field(default_factory=list)  # the pages of each
    climbs: list[Climb] = field(default_factory=list)
    # The times of posts that their publishers gave, by `ref_id`.
    given_times: dict[str, str] = field(default_factory=dict)
    feeds: list[list[Page]] = field(default_factory=list)  # of publishers' own posts
    post_reads: list[PostRead] = field(default_factory=list)
    edits: Edits = field(default_factory=Edits)
    readers: ReaderHistory = field(default_factory=ReaderHistory)
    backfills: list[BackfillPass] = field(default_factory=list)
    relations: dict[Pair, Relation] = field(default_factory=lambda: defaultdict(Relation))
    audience: AudienceHistory = field(default_factory=AudienceHistory)
    _by_subject: dict[tuple[str, str], list[Operation]] = field(
        default_factory=lambda: defaultdict(list)
    )
    # By message: what it asks for, of one relation or two.
    _requests: dict[str, list[tuple[Relation, Asked]]] = field(default_factory=dict)
    _orders: dict[str, tuple[Relation, Span]] = field(default_factory=dict)

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._by_subject[operation.kind, operation.subject].append(operation)

    def of(
        self, *kinds: str, user: str | None = None, subject: str | None = None
    ) -> list[Operation]:
        """The operations of these kinds, perhaps only of one user or on one subject."""
        among: Iterable[Operation] = self.operations
        if subject is not None:
            among = (each for kind in kinds for each in self._by_subject[kind, subject])
        return [each for each in among if each.kind in kinds and user in (None, each.user)]

    def users(self) -> list[str]:
        """All who tried to follow or unfollow."""
        return sorted({user for (user, _), each in self.relations.items() if each.has_user})

    def has_few_followers(self, publisher: str) -> bool:
        """Whether all posts of a publisher are small, because few users ever tried to follow."""
        fans = (
            user
            for (user, followed), relation in self.relations.items()
            if followed == publisher and any(request.follows for request in relation.requests)
        )
        return len(list(fans)) <= FEW_FOLLOWERS

    def is_never_hidden(self, user: str, publisher: str) -> bool:
        """Whether a user never muted or unfollowed a publisher, nor waited for its approval."""
        relation = self.relations.get((user, publisher))
        is_followed = relation is None or all(
            request.verb is Verb.FOLLOW for request in relation.requests
        )
        is_public = not self.audience.choices_of(publisher)
        return is_followed and is_public and not self.readers.mutes.get((user, publisher))

    def tried_to_retract(self, ref_id: str) -> bool:
        """Whether its publisher may have retracted a post."""
        return bool(self.retractions(ref_id))

    def retractions(self, ref_id: str) -> list[Operation]:
        """The operations that may have retracted a post: messages, or requests after its publish.

        An abandoned attempt, or a late write of it, may take effect before or after a later
        answered request; but it does not retract posts accepted after the request was made.
        """
        published = self.of("publish", "send", subject=ref_id)
        first_ms = min((each.begun_ms for each in published), default=0)
        return [
            each
            for each in self.of("retract", "unsend", subject=ref_id)
            if each.kind == "unsend"
            or any(
                not attempt.is_vain and first_ms <= attempt.asked_ms + CLOCKS_MS
                for attempt in each.attempts
            )
        ]

    def repaired(self, begun_ms: float, ended_ms: float) -> None:
        """The doctor has compared every relation with its edges, and repaired them."""
        for relation in self.relations.values():
            relation.reconciled.append(Span(begun_ms, ended_ms))

    def sent(self, queue: str, message: Message) -> None:
        """A message is in a queue."""
        self.edits.sent(queue, message)
        sent_ms = int(message.sent_at * 1000)
        is_asked = IN_MESSAGES.search(message.body)
        if queue == names.PUBLISH.name and is_asked:
            attribute = message.attributes.get(contract.FIRST_SENT_AT, {}).get("StringValue", "")
            stamp = first_sent_at(attribute, sent_at=sent_ms)
            self._requests[message.id] = [
                (self.relations[pair], Asked.of(verb, sent_ms, is_message=True, stamp=stamp))
                for pair, verb in _asked_for(json.loads(message.body))
            ]
            for relation, request in self._requests[message.id]:
                relation.requests.append(request)
        elif queue == f"{names.PUBLISH.name}Dlq" and is_asked:
            self._rejected(message)
        elif queue == names.RELATION.name and f'"{contract.RELATION_SETTLE}"' in message.body:
            content = json.loads(message.body)
            relation = self.relations[content["user_id"], content["publisher_id"]]
            relation.orders.append(Span(sent_ms))
            self._orders[message.id] = relation, relation.orders[-1]

    def _backfilled(self, message: Message, now_ms: float, work: Span | None) -> None:
        if work is None or '"relation.' not in message.body:
            return
        content = json.loads(message.body)
        if content["type"] == contract.RELATION_OPEN:
            return
        pair = content["user_id"], content["publisher_id"]
        is_second = content["type"] == contract.RELATION_SETTLE
        sent_ms = message.sent_at * 1000
        self.backfills.append(BackfillPass(*pair, sent_ms, work.begun_ms, now_ms, is_second))

    def _rejected(self, message: Message) -> None:
        """PLAN has sent a message to the dead-letter queue, before deleting it."""
        content, sent_ms = json.loads(message.body), int(message.sent_at * 1000)
        attribute = message.attributes.get(contract.FIRST_SENT_AT, {}).get("StringValue", "")
        stamp = first_sent_at(attribute, sent_at=sent_ms)
        for pair, _ in _asked_for(content):
            for request in self.relations[pair].requests:
                if request.is_message and request.stamp == stamp:
                    request.is_due = False

    def ended(self, message: Message, how: str, now_ms: float, work: Span | None) -> None:
        """A message or a copy of it has left its queue for good.

        `work` is the invocation that handled it. A `follow.added` or `follow.removed` takes effect
        once, after it was sent (docs/api.md): after it is handled, copies have no effect; but if
        one became a dead letter, another one may still take effect.
        """
        self.edits.ended(message, how, now_ms)
        if how == DELETED:
            self._backfilled(message, now_ms, work)
        if message.id in self._requests and not message.dead_letter_source:
            is_whole = how == DELETED and work and not work.trouble
            # A follow under one's own block is dropped: no edge is looked at, and a copy may come
            # after the unblock.
            may_be_dropped = any(
                each.verb is Verb.SHUT_OUT
                for relation, _ in self._requests[message.id]
                for each in relation.requests
            )
            for relation, request in self._requests[message.id]:
                request.is_due = request.is_due and how == DELETED
                has_looked = is_whole and not (may_be_dropped and request.verb in FOLLOWS)
                relation.ends(request, now_ms, work if has_looked else None)
            if how == DELETED and not may_be_dropped:
                del self._requests[message.id]
        elif message.id in self._orders and how == DELETED:
            relation, order = self._orders[message.id]
            order.ended_ms = min(order.ended_ms, now_ms)
            if work:
                relation.reconciled.append(Span(work.begun_ms, now_ms))


def _asked_for(content: dict[str, Any]) -> Iterator[tuple[Pair, Verb]]:
    """What a message asks for, of each relation."""
    pair = content["user_id"], content["publisher_id"]
    verb, of_others = VERBS[content["type"]]
    yield pair, Verb.APPROVED if content.get("approved") else verb
    if of_others:
        yield pair[::-1], of_others

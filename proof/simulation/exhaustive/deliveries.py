"""Scopes of one fan-out: PLAN, SWEEP and two deliverers at once, and what must hold of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any

from fanfold import contract, names
from fanfold.aws.items import expressions, get_number, number, text
from fanfold.follows import ring
from fanfold.ids import ref_id_for
from proof.model.clock import START_MS
from proof.simulation.exhaustive.calls import AwsCall
from proof.simulation.exhaustive.doors import Program, Sizes
from proof.simulation.exhaustive.scopes import Scope, http, sweep
from proof.simulation.exhaustive.states import Happened, Letter, State
from proof.simulation.exhaustive.store import TABLES, Contents

PUBLISHER = "p"
REF_ID = ref_id_for(PUBLISHER, "k")
HOUR_MS = 60 * 60 * 1000
# So long ago that SWEEP is due.
ACCEPTED_AT = START_MS - 1_000_000
PLANNED_AT = ACCEPTED_AT + 1_000
ASKED_AT = START_MS - 500_000
# With these, DELIVER writes one batch of its segment, and then hands back the rest.
SECONDS_A_CALL = 1.0
SECONDS_FOR_ONE_BATCH = 26.0
# With these, so does PLAN after it has looked up what it needs.
SECONDS_A_CALL_OF_PLAN = 2.0


class DeliveryScope(Scope):
    """One accepted post of a publisher with a few followers."""

    def accept(self, followers: int) -> None:
        """Let users follow; then publish, so that PLAN has its order."""
        self.follow(followers)
        self.ghost = True
        self.run("api", _publish(ACCEPTED_AT), at=ACCEPTED_AT)

    def follow(self, followers: int) -> None:
        self.users = [f"u{each}" for each in range(followers)]
        for user in self.users:
            at = ACCEPTED_AT - HOUR_MS
            path = {"publisher_id": PUBLISHER}
            done = self.run("api", http(contract.FOLLOW, user, at=at, path=path), at=at)
            assert not done.is_failure
        self.letters.clear()  # RELATE's, long done

    def row(self, contents: Contents) -> dict[str, Any]:
        """The row of the ledger; empty before there is one."""
        rows = self.store.rows(contents, names.FANOUTS)
        return next((row for row in rows if row["fanout_id"]["S"] == REF_ID), {})

    def is_open(self, contents: Contents) -> bool:
        return "open_fanout" in self.row(contents)

    def remember(self, ghost: Hashable, happened: Happened) -> tuple[Hashable, str]:
        """The ghost is whether a client was answered that its post is accepted."""
        is_api = happened.program.function == names.API.name
        is_accepted = is_api and happened.end is not None and not happened.end.is_failure
        broken = ""
        if self._is_complete(happened.before) and not self._is_complete(happened.after):
            broken = "a complete fan-out is open again"
        return ghost is True or is_accepted, broken

    def _is_complete(self, contents: Contents) -> bool:
        number = contents[TABLES[names.FANOUTS.name]]
        if number not in self._complete:
            self._complete[number] = self.row(contents).get("state") == {"S": "complete"}
        return self._complete[number]

    def act_at_last(self, ghost: Hashable) -> tuple[int, Hashable]:
        """Perhaps a client repeats its request, so long after the first attempt."""
        if self.repeats_after_ms is None:
            return START_MS, ghost
        now = START_MS + self.repeats_after_ms
        end = self.run("api", _publish(now), at=now)
        return now, ghost is True or not end.is_failure

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ghost = False
        self.repeats_after_ms: int | None = None
        self._complete: dict[int, bool] = {}  # by the number of the ledger's content
        self.clients: list[Program] = []
        self._broken: dict[tuple[int, ...], str] = {}

    def broken(self, state: State) -> str:
        tables = (names.FANOUTS, names.TIMELINES, names.POSTS)
        key = tuple(state.contents[TABLES[table.name]] for table in tables)
        if key not in self._broken:
            self._broken[key] = self._broken_in(state.contents)
        return self._broken[key]

    def _broken_in(self, contents: Contents) -> str:
        row, entries = self.row(contents), self._entries(contents)
        posts = self.store.rows(contents, names.POSTS)
        if any("deleted_at" not in post and not self._is_owed(post, row) for post in posts):
            return f"somebody sees a post that is not owed to all: {row or 'no row'}"
        # A tombstone has no sort key any more.
        known = [post if "sort_key" in post else row for post in posts]
        right = {(user, each["sort_key"]["S"]) for user in self.users for each in known if each}
        if not set(entries) <= right:
            return f"somebody has another entry, or two: {entries}"
        segments = get_number(row, "segments")
        pending = {int(each) for each in row.get("pending", {"NS": []})["NS"]}
        served = {user for user, _ in entries}
        for user in self.users if segments and not _is_retracted(posts) else ():
            segment = _segment_of(user, segments)
            if segment not in pending and user not in served:
                return f"segment {segment} is finished, and {user} lacks the entry"
        if get_number(row, "delivered") > len(self.users):
            return f"more entries are counted than there are followers: {row['delivered']}"
        if self._is_complete(contents):
            return self._broken_if_complete(contents, row, served)
        return ""

    def broken_when_quiet(
        self, contents: Contents, letters: Iterable[Letter], ghost: Hashable
    ) -> str:
        row = self.row(contents)
        if letters := list(letters):
            return f"in the end there are dead letters: {letters}"
        if not row:
            return "in the end an accepted post is not in the ledger" if ghost is True else ""
        if row["state"]["S"] == "void" and ghost is not True:
            return ""
        if row["state"]["S"] != "complete":
            return f"in the end the fan-out is {row['state']['S']}: {row}"
        served = {user for user, _ in self._entries(contents)}
        return self._broken_if_complete(contents, row, served)

    def _is_owed(self, post: dict[str, Any], row: dict[str, Any]) -> bool:
        is_its_row = row and row["sort_key"] == post["sort_key"]
        return bool(is_its_row) and row["state"]["S"] != "void"

    def _broken_if_complete(self, contents: Contents, row: dict[str, Any], served: set[str]) -> str:
        is_due = not _is_retracted(self.store.rows(contents, names.POSTS))
        if is_due and (lacking := set(self.users) - served):
            return f"the fan-out is complete, and {sorted(lacking)} lack the entry"
        if is_due and row["delivered"]["N"] != str(len(self.users)):
            return f"the fan-out is complete, and counts {row['delivered']['N']} entries"
        for name in ("pending", "open_fanout", "stalled_fanout"):
            if name in row:
                return f"the fan-out is complete, and has '{name}' in its row"
        return "" if "completed_at" in row else "the fan-out is complete, without a time"

    def _entries(self, contents: Contents) -> list[tuple[str, str]]:
        rows = self.store.rows(contents, names.TIMELINES)
        return [(row["user_id"]["S"], row["sort_key"]["S"]) for row in rows]


def _is_retracted(posts: list[dict[str, Any]]) -> bool:
    return any("deleted_at" in post for post in posts)


def _segment_of(user: str, segments: int) -> int:
    position = ring.position_of(ring.edge(user))
    parts = (ring.segment_range(segment, segments) for segment in range(segments))
    return next(n for n, part in enumerate(parts) if part.lo <= position < part.hi)


def _publish(at: int) -> Any:
    return http(contract.PUBLISH_POST, PUBLISHER, at=at, body={"body": {}})


def _posted(scope: DeliveryScope, *stamps: int) -> None:
    """Clients post, with one key."""
    scope.follow(1)
    for at in stamps or (0,):
        event = json.dumps(_publish(START_MS + at))
        scope.clients.append(Program(f"post at {at}", names.API.name, event, seconds=10.0))


def _posted_twice(scope: DeliveryScope) -> None:
    """A client posts, and repeats it before it has its answer."""
    _posted(scope, 0, 1)


def _repeated(scope: DeliveryScope, after_ms: int) -> None:
    """A client posts, and repeats it whatever it was answered, or was not."""
    _posted(scope)
    scope.repeats_after_ms = after_ms


def _sent(scope: DeliveryScope, copies: int = 1) -> None:
    """A service posts by a message."""
    scope.follow(1)
    content = {"version": 1, "type": contract.POST_PUBLISHED, "body": {}}
    body = json.dumps({**content, "publisher_id": PUBLISHER, "ref_id": REF_ID})
    scope.letters = [
        Letter(names.PUBLISH.name, body, PUBLISHER, START_MS, copy=copy) for copy in range(copies)
    ]


def _unplanned(scope: DeliveryScope) -> None:
    scope.accept(1)


def _copied(scope: DeliveryScope, followers: int = 2) -> None:
    """PLAN's order is received twice, so that two workers deliver at once."""
    scope.accept(followers)
    (order,) = scope.letters
    scope.letters.append(order._replace(copy=1))


def _beside_a_plan(scope: DeliveryScope) -> None:
    """PLAN's order comes again while its first worker still delivers: that one is planned."""
    scope.accept(2)
    (order,) = scope.letters
    scope.letters.append(order._replace(receives=1))


def _given_up(scope: DeliveryScope) -> None:
    """PLAN has time for one of two batches, and leaves the other to a lane."""
    scope.accept(2)
    scope.steps.seconds_a_call_of_plan = SECONDS_A_CALL_OF_PLAN


def _given_up_twice(scope: DeliveryScope) -> None:
    _copied(scope)
    scope.steps.seconds_a_call_of_plan = SECONDS_A_CALL_OF_PLAN


def _retracted(scope: DeliveryScope) -> None:
    """The publisher takes the post back while PLAN has it."""
    scope.accept(1)
    _takes_back(scope)


def _given_up_and_retracted(scope: DeliveryScope) -> None:
    _given_up(scope)
    _takes_back(scope)


def _takes_back(scope: DeliveryScope) -> None:
    path = {"ref_id": REF_ID}
    event = http(contract.RETRACT_POST, PUBLISHER, at=START_MS, path=path)
    scope.clients.append(
        Program("take back", names.API.name, json.dumps(event), seconds=names.API.seconds)
    )


def _nobody(scope: DeliveryScope) -> None:
    scope.accept(0)


def _planned(scope: DeliveryScope, followers: int = 1) -> None:
    """PLAN has died after it sent the segments, so its order comes again."""
    scope.accept(followers)
    (order,) = scope.letters
    scope.receive(order, at=PLANNED_AT)
    scope.letters.append(order._replace(receives=1))


def _segments(scope: DeliveryScope) -> None:
    _planned(scope, 2)


def _last_segments(scope: DeliveryScope) -> None:
    """Nothing is left but the orders of the segments."""
    _planned(scope, 2)
    scope.letters = [each for each in scope.letters if each.queue != names.PUBLISH.name]


def _handed_back(scope: DeliveryScope) -> None:
    _planned(scope, 2)
    scope.steps.seconds_a_call = SECONDS_A_CALL
    scope.steps.deliver_seconds = SECONDS_FOR_ONE_BATCH


def _answered(scope: DeliveryScope) -> None:
    """SWEEP's question has come out of the lane, so all is sent again."""
    scope.accept(1)
    scope.receive(scope.letters[0], at=PLANNED_AT)
    scope.run("sweep", at=ASKED_AT)
    scope.letters = [each._replace(receives=1) for each in scope.letters]
    request = {
        "TableName": names.FANOUTS.name,
        "Key": {"fanout_id": text(REF_ID)},
        **expressions(sets={"came_out": number(ASKED_AT)}),
    }
    call = AwsCall.of("dynamodb", "update_item", json.loads(json.dumps(request)))
    scope.contents = scope.store.apply(scope.contents, call).contents


ONE_HOP = Sizes()
ONE_PUT_IN_ONE_HOP = Sizes(puts=1)
# PLAN sees that there is more than its sample, and leaves all to a lane.
ONE_SEGMENT = Sizes(sample=1)
TWO_SEGMENTS = Sizes(segment_followers=1)
ONE_PUT = Sizes(puts=1, sample=1)
# By name: how the first state comes about, the sizes, and how many SWEEPs run at once.
SCOPES: dict[str, tuple[Callable[[DeliveryScope], None], Sizes, int]] = {
    "posted": (_posted, ONE_SEGMENT, 0),
    "posted twice": (_posted_twice, ONE_SEGMENT, 0),
    "posted, again at once": (partial(_repeated, after_ms=0), ONE_SEGMENT, 0),
    "posted, again after a minute": (partial(_repeated, after_ms=60_000), ONE_SEGMENT, 0),
    "posted, again after an hour": (partial(_repeated, after_ms=HOUR_MS), ONE_SEGMENT, 0),
    "sent": (_sent, ONE_SEGMENT, 0),
    "sent twice": (partial(_sent, copies=2), ONE_SEGMENT, 0),
    "nobody follows": (_nobody, ONE_SEGMENT, 1),
    "one hop": (_unplanned, ONE_HOP, 1),
    "one hop twice": (_copied, ONE_HOP, 1),
    "one hop beside a plan": (_beside_a_plan, ONE_HOP, 1),
    "one hop, retracted": (_retracted, ONE_HOP, 0),
    "one hop, then a lane": (_given_up, ONE_PUT_IN_ONE_HOP, 1),
    "one hop twice, then a lane": (_given_up_twice, ONE_PUT_IN_ONE_HOP, 1),
    "one hop, then a lane, retracted": (_given_up_and_retracted, ONE_PUT_IN_ONE_HOP, 0),
    "not planned": (_unplanned, ONE_SEGMENT, 1),
    "planned": (_planned, ONE_SEGMENT, 1),
    "two sweeps": (_planned, ONE_SEGMENT, 2),
    "answered": (_answered, ONE_SEGMENT, 1),
    "last two segments": (_last_segments, TWO_SEGMENTS, 0),
    "two segments": (_segments, TWO_SEGMENTS, 1),
    "handed back": (_handed_back, ONE_PUT, 1),
}


def delivery(name: str, *, faults: int = 0) -> DeliveryScope:
    """A scope of a delivery; only inside `installed()` with its sizes."""
    make, sizes, sweeps = SCOPES[name]
    scope = DeliveryScope(name, sizes)
    make(scope)
    scope.begin([*scope.clients, *map(sweep, range(1, sweeps + 1))], faults)
    return scope

"""Worlds that live for weeks: what their checks notice, and which runs of SWEEP they leave out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fanfold import contract, names, times
from fanfold.aws.queues import WorkQueue
from fanfold.channels.head import HEAD
from fanfold.errors import Unsent
from fanfold.fanout.row import EXPIRED, STALLED
from fanfold.sweep.open_fanouts import Memory
from proof.simulation.actors import returning
from proof.simulation.checks import judge, weeks
from proof.simulation.checks.evidence import Evidence
from proof.simulation.clients import requests
from proof.simulation.kinds.weeks import KIND, live
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.oracle.ids import DAY, Between, Holder, Id, IdAttempt, WantedPost
from proof.simulation.stage import stores
from proof.simulation.world import skipped_sweeps, triggers
from proof.simulation.world.lambdas import installed, lambdas
from proof.simulation.world.long_world import LongWorld, Moment
from tests.simulation.test_spoiled_worlds import sentences

SEED = 14
MEMORY = {"S": "#sweep"}
# Longer gaps would take long to live through.
MOST_RUNS = 300


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture(scope="module")
def lived() -> LongWorld:
    with installed():
        world = LongWorld(SEED)
        live(world)
    return world


# Every check fires


def moments(world: LongWorld) -> list[Moment]:
    return [each for each in world.log if isinstance(each, Moment)]


def last_shown(world: LongWorld) -> tuple[Moment, str, tuple[str, str, str, str]]:
    """A moment, a user and a line that the user is shown, to an owed user."""
    course = weeks.course_of(Evidence(world))
    for ref_id, holder, since in course.posts():
        first = course.delivered(ref_id, holder, since)
        if first is None or ref_id in world.spoilt:
            continue
        moment = course.seen[first].moment
        states = [
            course.follows_throughout(user, holder.publisher, holder, first) for user in world.users
        ]
        if None in states or holder.entries_end.lo - holder.handled < weeks.SLOWEST_MS:
            continue
        for user, lines in moment.shown.items():
            mine = [line for line in lines if line[1] == ref_id]
            if mine and course.follows_throughout(user, holder.publisher, holder, first):
                return moment, user, mine[0]
    raise AssertionError("The world shows nothing.")


def an_answer_that_nothing_explains(world: LongWorld) -> None:
    attempt = next(each for each in world.log if isinstance(each, IdAttempt) and each.status == 202)
    attempt.status = 410


def another_title(world: LongWorld) -> None:
    moment, user, line = last_shown(world)
    moment.shown[user].remove(line)
    moment.shown[user].append((*line[:3], "another"))


def a_line_twice(world: LongWorld) -> None:
    moment, user, line = last_shown(world)
    moment.shown[user].append(line)


def lines_out_of_order(world: LongWorld) -> None:
    moment = next(each for each in moments(world) if any(len(v) > 1 for v in each.shown.values()))
    for lines in moment.shown.values():
        lines.reverse()


def a_line_after_its_retention(world: LongWorld) -> None:
    moment, user, line = last_shown(world)
    late = moments(world)[-1]
    assert late.at.lo - moment.at.lo > 45 * DAY
    late.shown[user].append(line)


def a_line_that_comes_back(world: LongWorld) -> None:
    """It is taken out of the middle of three moments at which it is shown."""
    found = moments(world)
    for before, middle, after in zip(found, found[1:], found[2:], strict=False):
        for user in middle.shown:
            lines = set(before.shown[user]) & set(after.shown[user])
            if lines and before.retention_ms == middle.retention_ms == after.retention_ms:
                middle.shown[user] = [each for each in middle.shown[user] if each not in lines]
                return
    raise AssertionError("No line is shown at three moments.")


def a_missing_line(world: LongWorld) -> None:
    moment, user, line = last_shown(world)
    moment.shown[user].remove(line)


def a_line_of_somebody_who_does_not_follow(world: LongWorld) -> None:
    moment, _, line = last_shown(world)
    for each in moments(world):
        each.follows["stranger"] = each.muted["stranger"] = set()
    moment.shown["stranger"] = [line]


def a_line_of_somebody_muted(world: LongWorld) -> None:
    moment, user, line = last_shown(world)
    moment.muted[user] = {line[0]}


def a_mute_that_nobody_asked_for(world: LongWorld) -> None:
    after = moments(world)[-1]
    after.muted[world.users[0]] = set(world.publishers)
    after.asked_for_mutes.clear()


def a_follow_that_nobody_asked_for(world: LongWorld) -> None:
    before, after = moments(world)[-2:]
    user = world.users[0]
    before.follows[user], after.follows[user] = set(), set(world.publishers)
    after.asked_for.clear()


def spoiled_row(**changes: Any) -> Callable[[LongWorld], None]:
    def spoil(world: LongWorld) -> None:
        moment, _, line = last_shown(world)
        moment.fanouts[line[1]] = replace(moment.fanouts[line[1]], **changes)

    return spoil


def a_fanout_that_is_gone(world: LongWorld) -> None:
    moment, _, line = last_shown(world)
    del moment.fanouts[line[1]]


def a_fanout_that_expired_in_time(world: LongWorld) -> None:
    moment, _, line = last_shown(world)
    row = moment.fanouts[line[1]]
    moment.fanouts[line[1]] = replace(row, state=EXPIRED, expires_at=0)
    for each in moments(world):
        each.hindered.discard(line[1])


def put(world: LongWorld, table: names.Table, **item: str) -> None:
    row = {name: {"N" if name == names.EXPIRES_AT else "S": each} for name, each in item.items()}
    world.dynamodb.put_item(TableName=table.name, Item=row)


def a_row_without_end(world: LongWorld) -> None:
    put(world, names.POSTS, ref_id="stays", publisher_id="p0", sort_key="1")


def an_edge_without_a_follow(world: LongWorld) -> None:
    row = world.rows(names.FOLLOWERS)[0]
    world.dynamodb.put_item(
        TableName=names.FOLLOWERS.name, Item={**row, "edge": {"S": "0123456789abcdef#nobody"}}
    )


def a_demoted_channel_that_stays(world: LongWorld) -> None:
    put_demoted_channel(world, until=9_999_999_999)


def put_demoted_channel(world: LongWorld, *, until: int) -> None:
    row = {"id": {"S": "p0"}, "v": {"N": "1"}, "until": {"N": str(until)}}
    head = {"publisher_id": {"S": HEAD}, "channels": {"M": {"mark": {"M": row}}}}
    world.dynamodb.put_item(TableName=names.PUBLISHERS.name, Item=head)


LOG_SPOILINGS = [
    (weeks.ids_are_free_when_the_documents_say, an_answer_that_nothing_explains, "nothing explain"),
    (weeks.entries_show_their_own_posts, another_title, "does not stand for"),
    (weeks.entries_show_their_own_posts, a_line_twice, "a post twice"),
    (weeks.entries_show_their_own_posts, lines_out_of_order, "out of order"),
    (weeks.no_entry_is_shown_after_its_time, a_line_after_its_retention, "after the retention"),
    (weeks.no_entry_is_shown_after_its_time, a_line_after_its_retention, "should have deleted"),
    (weeks.no_entry_is_shown_after_its_time, a_line_that_comes_back, "after it was gone"),
    (weeks.posts_are_shown_for_their_retention, a_missing_line, "is not shown"),
    (
        weeks.nobody_is_shown_what_they_did_not_follow,
        a_line_of_somebody_who_does_not_follow,
        "stranger does not follow",
    ),
    (
        weeks.nobody_is_shown_whom_they_do_not_follow,
        a_line_of_somebody_who_does_not_follow,
        "and does not follow them",
    ),
    (
        weeks.nobody_is_shown_whom_they_do_not_follow,
        a_line_of_somebody_muted,
        "and has muted them",
    ),
    (weeks.follows_stay_as_they_were_asked_for, a_follow_that_nobody_asked_for, "was asked for"),
    (weeks.mutes_stay_as_they_were_asked_for, a_mute_that_nobody_asked_for, "was asked for"),
    (weeks.deliveries_end_as_they_must, spoiled_row(state="delivering"), "nothing is in its way"),
    (weeks.deliveries_end_as_they_must, spoiled_row(state=STALLED), "has stalled"),
    (weeks.deliveries_end_as_they_must, spoiled_row(state=EXPIRED), "before its time"),
    (weeks.deliveries_end_as_they_must, a_fanout_that_expired_in_time, "and nothing was in its"),
    (weeks.deliveries_end_as_they_must, spoiled_row(delivered=99), "counts 99 entries"),
    (weeks.deliveries_end_as_they_must, a_fanout_that_is_gone, "the ledger does not know"),
]
ROW_SPOILINGS = [
    (a_row_without_end, ("has no time to live", "Posts keeps", "The index outbox keeps")),
    (an_edge_without_a_follow, ("Edges and follows differ",)),
    (a_demoted_channel_that_stays, ("Publishers keeps [Channel(",)),
]


def test_each_sentence_is_said_of_a_world_that_was_spoiled_for_it(lived: LongWorld) -> None:
    said: list[str] = []
    log = lived.log
    for check, spoil, says in LOG_SPOILINGS:
        lived.log = deepcopy(log)
        assert not list(check(Evidence(lived)))
        spoil(lived)
        found = list(check(Evidence(lived)))
        assert any(says in line for line in found), (spoil, found)
        said += found
    lived.log = log
    for spoil_rows, sayings in ROW_SPOILINGS:
        world = LongWorld(SEED)
        live(world)
        spoil_rows(world)
        found = list(weeks.rows_do_not_stay_for_ever(Evidence(world)))
        for each in sayings:
            assert any(each in line for line in found), (each, found)
        said += found
    for place, pattern in sentences([Path(weeks.__file__)]):
        assert any(re.search(pattern, line) for line in said), f"{place}: {pattern}"


def test_what_had_ended_before_the_retention_was_raised_waits_for_the_doctor(
    lived: LongWorld,
) -> None:
    log = lived.log
    lived.log = deepcopy(log)
    a_line_of_somebody_who_does_not_follow(lived)
    check = weeks.nobody_is_shown_whom_they_do_not_follow
    assert list(check(Evidence(lived)))
    ended = max(state.entries_end.hi for state in holders(lived))
    for each in moments(lived):
        if "stranger" in each.shown:
            each.at = Between(ended + 1, ended + 1)
    assert not list(check(Evidence(lived)))
    lived.log = log


def holders(world: LongWorld) -> Iterator[Holder]:
    for seen in weeks.course_of(Evidence(world)).seen:
        for states in seen.ids.values():
            yield from (state for state in states if state and state.wanted)


# A post is shown, its id becomes free, and the same post is published there once more.
PUBLISHED_ONCE_MORE = 90_137


def test_worlds_of_weeks_hold_what_is_promised() -> None:
    for seed in (*range(SEED, SEED + 4), PUBLISHED_ONCE_MORE):
        world = LongWorld(seed)
        live(world)
        assert judge.violations(world, KIND.checks) == []


# Leaving out runs of SWEEP


def test_a_run_of_sweep_that_is_left_out_would_have_changed_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing is left out here: each run that would be is compared by what it leaves behind."""
    left_out = 0
    world = LongWorld(SEED)
    world.database.hooks.ttl_delay = None  # it would delete rows meanwhile
    ledger = names.FANOUTS.name

    def state() -> tuple[Any, ...]:
        rows = {
            table.name: [row for row in world.rows(table) if row.get("fanout_id") != MEMORY]
            for table in names.TABLES
        }
        queues = [
            [message.id for message in mapping.messages.messages()]
            for mapping in world.triggers._mappings
        ]
        return rows[ledger], rows, queues

    compared: list[tuple[float, tuple[Any, ...]]] = []  # until when, and with what

    def runs_to_leave_out(each: LongWorld) -> int:
        nonlocal left_out
        if compared and world.scheduler.now < compared[0][0]:
            assert state() == compared[0][1]
            return 0
        compared.clear()
        found = skipped_sweeps.idle_runs(each)
        if not 1 < found <= MOST_RUNS:
            return found
        left_out += found
        # The last of them is over when the next run begins.
        compared.append((world.scheduler.now + (found - 0.5) * skipped_sweeps.MINUTE, state()))
        return 0

    monkeypatch.setattr(triggers, "idle_runs", runs_to_leave_out)
    live(world)
    assert left_out > 100


def test_sweep_runs_again_as_soon_as_something_is_due() -> None:
    world = LongWorld(SEED)
    world.scheduler._due.clear()  # the run of SWEEP that looks whether others are idle
    world.scheduler.at(1_000_000.0, lambda: None)
    assert skipped_sweeps.idle_runs(world) == 24 * 60
    accepted_at = times.to_text(world.clock.now_ms())
    item = {
        "fanout_id": "p0-1",
        "publisher_id": "p0",
        "open_fanout": f"{accepted_at}#p0-1",
        "sort_key": f"{accepted_at}#p0-1",
        "accepted_at": accepted_at,
        "changed_at": accepted_at,
        "state": "queued",
    }
    row = {name: {"S": each} for name, each in item.items()}
    row["entries_expire_at"] = {"N": str(world.clock.now_ms() // 1000 + 86_400)}
    world.dynamodb.put_item(TableName=names.FANOUTS.name, Item=row)
    assert skipped_sweeps.idle_runs(world) == 2, "PLAN may be silent for two minutes"
    world.triggers.pause({names.PUBLISH.name})
    assert skipped_sweeps.idle_runs(world) == 0, "SWEEP notes a pause"
    queue = names.PUBLISH.name
    at_ms = world.clock.now_ms()
    open_fanouts = stores(world.dynamodb).open_fanouts  # type: ignore[arg-type]
    open_fanouts.remember(Memory(paused={queue: at_ms}, held=frozenset({queue})))
    assert skipped_sweeps.idle_runs(world) == 24 * 60 - 1, "and when it ends"


def test_sweep_removes_a_demoted_channel_of_a_stage_that_gives_none() -> None:
    world = LongWorld(SEED)
    world.channels.stage = ChannelSettings(threshold=0)
    world.scheduler._due.clear()
    world.scheduler.at(1_000_000.0, lambda: None)
    put_demoted_channel(world, until=world.clock.now_ms() // 1000 + 120)
    assert skipped_sweeps.idle_runs(world) == 2, "its clock may be ahead by the time a run takes"


# What an id stands for

POST = WantedPost("ada", "first")
RETENTION = 7 * DAY


def attempt(kind: str, at: float, status: int, **more: Any) -> IdAttempt:
    wanted = None if kind in ("retract", "unsend") else more.pop("wanted", POST)
    publisher = more.pop("publisher", "ada")
    at *= DAY
    return IdAttempt(
        kind, publisher, "r", Between(at, at), at, at, wanted=wanted, status=status,
        retention_ms=RETENTION, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("attempts", "is_explained"),
    [
        ([("publish", 0, 202), ("publish", 1, 202)], True),
        ([("publish", 0, 202), ("publish", 8, 202)], False),
        ([("publish", 0, 202), ("publish", 8, 400)], True),
        ([("publish", 0, 202), ("publish", 22, 400)], False),
        ([("publish", 0, 202), ("publish", 22, 202)], True),
        ([("publish", 0, 202), ("retract", 1, 204), ("publish", 2, 410)], True),
        ([("publish", 0, 202), ("retract", 1, 204), ("publish", 2, 202)], False),
        ([("publish", 0, 202), ("retract", 22, 204)], False),
        ([("publish", 0, 202), ("retract", 22, 404)], True),
        ([("publish", 0, 503), ("publish", 8, 400)], True),
        ([("publish", 0, 503), ("publish", 8, 202)], True),
        ([("publish", 0, 404)], False),
    ],
)
def test_an_answer_about_an_id_is_explained_by_those_before(
    attempts: list[tuple[str, float, int]], is_explained: bool
) -> None:
    known = Id()
    found = [line for each in attempts for line in known.settle(attempt(*each))]
    assert (not found) is is_explained


def test_a_message_that_waits_may_find_the_row_before_it_deleted() -> None:
    known = Id()
    assert not list(known.settle(attempt("publish", 0, 202)))
    late = attempt("send", 20, 0, publisher="eve", wanted=WantedPost("eve", "second"))
    late.done = 22 * DAY
    assert not list(known.settle(late))
    assert {state.publisher for state in known.states if isinstance(state, Holder)} == {
        "ada",
        "eve",
    }


def test_a_retraction_that_comes_too_late_lets_a_message_of_before_find_the_row() -> None:
    """It changes nothing: DynamoDB may still have the row, by which the message is judged."""
    known = Id()
    for each in (attempt("publish", 0, 202), attempt("retract", 21.5, 404)):
        assert not list(known.settle(each))
    late = attempt("send", 20, 0, publisher="eve", wanted=WantedPost("eve", "second"))
    late.done = 22 * DAY
    assert not list(known.settle(late))
    assert {state.publisher for state in known.states if state} == {"ada", "eve"}


def test_a_message_that_waited_may_have_been_refused_under_a_shorter_retention() -> None:
    outcomes = {}
    for shortest in (RETENTION, 30 * DAY):
        known, old = Id(), WantedPost("ada", "first", times.to_text(0))
        late = attempt("send", 8, 0, wanted=old, shortest_ms=shortest)
        late.retention_ms, late.done = 30 * DAY, 20 * DAY
        assert not list(known.settle(late))
        outcomes[shortest] = len(known.states)
    assert outcomes == {RETENTION: 2, 30 * DAY: 1}


# What lives for hours alone


@pytest.mark.parametrize(("days", "outlives"), [(0.1, True), (1.0, False)])
def test_no_environment_outlives_a_day(days: float, outlives: bool) -> None:
    world = LongWorld(SEED)

    def live() -> None:
        world.act(("reader", lambda: requests.read(world, "ann", limit=1)), faults=False)
        world.pass_until(world.scheduler.now + days * 86_400)

    world.alive(live)
    found = lambdas().environments[contract.READ_TIMELINE.door, world.transport, False]
    assert any(not each.is_cold for each in found) is outlives


def test_an_operator_repeats_a_resend_whose_command_was_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, refused = LongWorld(SEED), iter([Unsent("no"), None])
    at = times.to_text(world.clock.now_ms())
    texts = ("fanout_id", "publisher_id", "sort_key")
    row = {**dict.fromkeys(texts, "r"), "accepted_at": at, "changed_at": at, "state": STALLED}
    item: Any = {name: {"S": each} for name, each in row.items()}
    world.dynamodb.put_item(TableName=names.FANOUTS.name, Item=item)

    def send(_queue: WorkQueue, _message: object) -> None:
        if error := next(refused):
            raise error

    monkeypatch.setattr(WorkQueue, "send", send)
    resend = partial(returning.resend, world, "r")
    world.alive(lambda: world.act(("operator", resend), faults=False))
    assert [*refused] == []

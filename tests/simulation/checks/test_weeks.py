"""Worlds that live for weeks: what their checks notice, and which runs of SWEEP they leave out."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold import names
from fanfold.channels.head import HEAD
from fanfold.fanout.row import EXPIRED, STALLED
from proof.simulation.checks import judge, weeks
from proof.simulation.checks.evidence import Evidence
from proof.simulation.kinds.weeks import KIND, live
from proof.simulation.oracle.ids import DAY, Between, Id, IdAttempt, WantedPost
from proof.simulation.world import skipped_sweeps, triggers
from proof.simulation.world.lambdas import installed
from proof.simulation.world.long_world import LongWorld, Moment
from tests.simulation.checks.test_spoiled_worlds import sentences

SEED = 31
MEMORY = {"S": "#sweep"}
# Longer gaps would take long to live through.
MOST_RUNS = 300


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed():
        yield


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


def a_line_of_somebody_who_does_not_follow(world: LongWorld) -> None:
    moment, _, line = last_shown(world)
    for each in moments(world):
        each.follows["stranger"] = each.muted["stranger"] = set()
    moment.shown["stranger"] = [line]


def a_mute_that_nobody_asked_for(world: LongWorld) -> None:
    after = moments(world)[-1]
    after.muted[world.users[0]] = set(world.publishers)
    after.asked_for_mutes.clear()


def a_follow_that_nobody_asked_for(world: LongWorld) -> None:
    before, after = moments(world)[-2:]
    user = world.users[0]
    before.follows[user], after.follows[user] = set(), set(world.publishers)
    after.asked_for.clear()


def of_last(change: Callable[[Moment, str, Any], object]) -> Callable[[LongWorld], object]:
    """Change a moment at which a user is shown a line."""
    return lambda world: change(*last_shown(world))


def spoiled_row(**changes: Any) -> Callable[[LongWorld], object]:
    def spoil(moment: Moment, _user: str, line: Any) -> None:
        moment.fanouts[line[1]] = replace(moment.fanouts[line[1]], **changes)

    return of_last(spoil)


another_title = of_last(
    lambda moment, user, line: operator.setitem(
        moment.shown[user], moment.shown[user].index(line), (*line[:3], "another")
    )
)
a_line_twice = of_last(lambda moment, user, line: moment.shown[user].append(line))
a_missing_line = of_last(lambda moment, user, line: moment.shown[user].remove(line))
somebody_muted = of_last(lambda moment, user, line: moment.muted.update({user: {line[0]}}))
a_fanout_that_is_gone = of_last(lambda moment, _, line: moment.fanouts.pop(line[1]))


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
    (weeks.nobody_is_shown_whom_they_do_not_follow, somebody_muted, "and has muted them"),
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


def test_each_sentence_is_said_of_a_world_that_was_spoiled_for_it() -> None:
    said: list[str] = []
    world = LongWorld(SEED)
    live(world)
    assert judge.violations(world, KIND.checks) == []
    log = world.log
    for check, spoil, says in LOG_SPOILINGS:
        world.log = deepcopy(log)
        assert not list(check(Evidence(world)))
        spoil(world)
        found = list(check(Evidence(world)))
        assert any(says in line for line in found), (spoil, found)
        said += found
    world.log = log
    for spoil_rows, _ in ROW_SPOILINGS:
        spoil_rows(world)
    found = list(weeks.rows_do_not_stay_for_ever(Evidence(world)))
    for _, sayings in ROW_SPOILINGS:
        for each in sayings:
            assert any(each in line for line in found), (each, found)
    said += found
    for place, pattern in sentences([Path(weeks.__file__)]):
        assert any(re.search(pattern, line) for line in said), f"{place}: {pattern}"


# A post is shown, its id becomes free, and the same post is published there once more.
PUBLISHED_ONCE_MORE = 90_137


def test_worlds_of_weeks_hold_what_is_promised() -> None:
    for seed in (*range(SEED + 1, SEED + 4), PUBLISHED_ONCE_MORE):
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

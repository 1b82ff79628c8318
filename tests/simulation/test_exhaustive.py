"""The exhaustive search itself: that it leaves nothing out, and that its checks fire."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fanfold import names
from proof.model.clock import START_MS
from proof.mutants import listing
from proof.mutants.simulated import copy_with
from proof.simulation.exhaustive import posts
from proof.simulation.exhaustive.__main__ import SCOPES, Named, explore
from proof.simulation.exhaustive.calls import AwsCall
from proof.simulation.exhaustive.deliveries import REF_ID, DeliveryScope, delivery
from proof.simulation.exhaustive.doors import Sizes, installed
from proof.simulation.exhaustive.relations import Ask, RelationScope, relation
from proof.simulation.exhaustive.scopes import Scope
from proof.simulation.exhaustive.search import one_by_one, search
from proof.simulation.exhaustive.states import Fate, Letter, Step
from proof.simulation.exhaustive.store import Contents


def scope(name: str) -> Named:
    return next(each for each in SCOPES if each.name == name)


@pytest.fixture
def doors() -> Iterator[None]:
    with installed(Sizes(sample=1)):  # PLAN leaves all to a lane
        yield


@pytest.mark.parametrize(
    "name",
    [
        "nobody follows",
        "one hop",
        "one hop, then a lane",
        "not planned",
        "unfollow, follow",
        "late post, message to edit, edit",
    ],
)
def test_every_order_of_a_small_scope_keeps_the_promise(name: str) -> None:
    found = explore(scope(name), faults=0).found
    assert not found.broken
    assert found.schedules > found.states  # else nothing ran at once


def test_one_fault_at_any_step_breaks_nothing() -> None:
    for name in posts.SCOPES:
        assert not explore(scope(name), faults=1).found.broken
    found = explore(scope("posted"), faults=1).found
    assert not found.broken
    assert len(found.ends) > 1  # in some of them SWEEP has still to come


def two_plans(faults: int) -> DeliveryScope:
    """So small that its schedules can be gone through one by one."""
    scope = DeliveryScope("two plans")
    scope.accept(0)
    (order,) = scope.letters
    scope.letters.append(order._replace(copy=1))
    scope.begin([], faults)
    return scope


def forgetful(scope: Scope) -> Scope:
    """Let nothing be looked up: each step runs its function again, and asks the model again."""
    take = scope.steps.take

    def take_anew(*args: Any) -> Any:
        scope.programs._after.clear()
        scope.store._effects.clear()
        return take(*args)

    scope.steps.take = take_anew  # type: ignore[assignment,method-assign]
    return scope


@pytest.mark.parametrize("faults", [0, 1])
@pytest.mark.usefixtures("doors")
def test_states_explored_once_stand_for_every_schedule(faults: int) -> None:
    whole = two_plans(faults)
    whole.steps.is_reduced = False
    single = two_plans(faults)
    single.steps.is_reduced = False
    all_at_once, each = search(whole), one_by_one(single if faults else forgetful(single))
    assert all_at_once.schedules == each.schedules >= 20  # two workers of three calls each
    assert all_at_once.ends == each.ends
    assert search(two_plans(faults)).ends == each.ends


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("planned", 0),
        ("not planned", 0),
        ("follow, unfollow", 0),
        ("two messages", 0),
        ("posted twice", 1),
        ("nobody follows", 1),
    ],
)
def test_quiet_calls_may_come_first(name: str, faults: int) -> None:
    named = scope(name)
    reduced = explore(named, faults=faults).found
    whole = explore(named, faults=faults, is_reduced=False).found
    assert reduced.ends == whole.ends
    assert reduced.states < whole.states


# Of each guard: a scope in which it is needed, how many faults that takes, and what is broken.
GUARDS = [
    ("the ledger row is written before anything is sent", "posted", 0, "not owed to all"),
    ("RELATE reconciles once more", "follow, unfollow", 1, "in the end the row says"),
    ("a message gives way to a later request", "message to unfollow, follow", 0, "came late"),
    ("an edit whose answer was lost is known again", "three edits", 1, "ended with 409"),
    ("what PLAN has not written is not complete", "one hop, then a lane", 0, "lacks the entry"),
    ("unprocessed keys are no missing rows", "one hop", 1, "dead letters"),
    (
        "a fan-out is completed at once only while it awaits its plan",
        "one hop beside a plan",
        0,
        "has 'pending'",
    ),
    ("a segment is finished only while it is pending", "not planned", 0, "more entries"),
]


def broken_without(guard: str, name: str, faults: int, folder: Path) -> str:
    named = f"{listing.GUARD}{guard}"
    copy_with(next(each for each in listing.read() if each.name == named), folder)
    options = f"-P -m proof.simulation.exhaustive --faults {faults} --only".split()
    done = subprocess.run(
        [sys.executable, *options, name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_a_missing_guard_is_shown_by_a_schedule_and_how_to_see_it_again(tmp_path: Path) -> None:
    guard, name, faults, what = GUARDS[-1]
    told = broken_without(guard, name, faults, tmp_path)
    assert f"{name}: {what}" in told
    assert '--only "not planned" --faults 0 --replay ' in told
    assert "update_item *" in told


@pytest.mark.thorough
@pytest.mark.parametrize(("guard", "name", "faults", "what"), GUARDS[:-1])
def test_each_of_these_guards_is_missed(
    guard: str, name: str, faults: int, what: str, tmp_path: Path
) -> None:
    assert what in broken_without(guard, name, faults, tmp_path)


# The checks, each seen to fire: a world that was right is spoiled by one write.


def write(scope: Scope, contents: Contents, operation: str, **request: Any) -> Contents:
    call = AwsCall.of("dynamodb", operation, json.loads(json.dumps(request)))
    after = scope.store.apply(contents, call)
    assert after.contents != contents, after.answer
    return after.contents


def delivered() -> tuple[DeliveryScope, Contents]:
    """A scope of a delivery that has come to its end."""
    scope = delivery("planned")
    assert not scope.broken_at_end(scope.first)
    return scope, scope.contents


def of_row(scope: DeliveryScope, expression: str, **values: Any) -> dict[str, Any]:
    given = {f":{name}": value for name, value in values.items()}
    return {
        "TableName": names.FANOUTS.name,
        "Key": {"fanout_id": {"S": REF_ID}},
        "UpdateExpression": expression,
        **({"ExpressionAttributeValues": given} if given else {}),
    }


@pytest.mark.parametrize(
    ("expression", "values", "told"),
    [
        ("SET delivered = :n", {"n": {"N": "0"}}, "counts 0 entries"),
        ("SET open_fanout = :k", {"k": {"S": "x#y"}}, "has 'open_fanout'"),
        ("SET stalled_fanout = :k", {"k": {"S": "x"}}, "has 'stalled_fanout'"),
        ("REMOVE completed_at", {}, "without a time"),
    ],
)
@pytest.mark.usefixtures("doors")
def test_a_spoiled_row_of_the_ledger_is_noticed(
    expression: str, values: dict[str, Any], told: str
) -> None:
    scope, contents = delivered()
    request = of_row(scope, expression, **values)
    spoiled = write(scope, contents, "update_item", **request)
    assert told in scope.broken(scope.first._replace(contents=spoiled))


@pytest.mark.usefixtures("doors")
def test_a_second_and_another_entry_are_noticed() -> None:
    scope, contents = delivered()
    (entry,) = scope.store.rows(contents, names.TIMELINES)
    key = {"user_id": entry["user_id"], "sort_key": entry["sort_key"]}
    for another in ({"sort_key": {"S": "another"}}, {"user_id": {"S": "stranger"}}):
        spoiled = write(scope, contents, "put_item", TableName="Timelines", Item={**key, **another})
        assert "another entry" in scope.broken(scope.first._replace(contents=spoiled))


@pytest.mark.usefixtures("doors")
def test_an_end_that_is_not_complete_and_a_dead_letter_are_noticed() -> None:
    scope, contents = delivered()
    letter = Letter(f"{names.EXPRESS.name}Dlq", "{}", "p", START_MS)
    assert "dead letters" in scope.broken_when_quiet(contents, [letter], None)
    assert "delivering" in scope.broken_when_quiet(scope.first.contents, [], None)
    (task,) = scope.first.tasks
    begun = scope.steps.take(scope.first, Step(task, Fate.DONE, begins=False))[1]
    reopened = begun._replace(before=contents, after=scope.first.contents)
    assert "open again" in scope.remember(True, reopened)[1]
    assert "not in the ledger" in scope.broken_when_quiet(scope.store.empty, [], True)


def followed() -> tuple[RelationScope, Contents]:
    scope = relation("unfollow, follow")
    return scope, scope.contents


@pytest.mark.usefixtures("doors")
def test_an_edge_without_a_row_and_a_wrong_count_are_noticed() -> None:
    scope, contents = followed()
    assert not scope.broken_when_quiet(contents, [], None)
    (edge,) = scope.store.rows(contents, names.FOLLOWERS)
    key = {"shard_id": edge["shard_id"], "edge": edge["edge"]}
    lost = write(scope, contents, "delete_item", TableName="Followers", Key=key)
    assert "the edges are []" in scope.broken_when_quiet(lost, [], None)
    (reader,) = scope.store.rows(contents, names.READERS)
    twice = {**reader, "follows": {"N": "2"}}
    counted = write(scope, contents, "put_item", TableName="Readers", Item=twice)
    assert "the count is [2]" in scope.broken_when_quiet(counted, [], None)


def first_of(scope: RelationScope, name: str) -> Any:
    """A step of the request of this name, as the checks see one."""
    tasks = {scope.programs.places[task.place].program.name: task for task in scope.first.tasks}
    step = Step(tasks[name], Fate.DONE, begins=False)
    return scope.steps.take(scope.first, step)[1]


@pytest.mark.usefixtures("doors")
def test_changes_that_no_request_explains_are_noticed() -> None:
    scope = RelationScope("one request")
    scope.ask([Ask(True, 1)], is_followed=False, faults=0)
    begun = first_of(scope, "follow at 1")
    following = {"user_id": {"S": "u"}, "publisher_id": {"S": "p"}, "state": {"S": "followed"}}
    active = write(scope, scope.contents, "put_item", TableName="Following", Item=following)
    change = begun._replace(after=active)
    ghost, broken = scope.remember(scope.ghost, change)
    assert not broken
    assert "taken effect twice" in scope.remember(ghost, change)[1]
    undone = begun._replace(before=active, after=scope.contents)
    assert "the opposite" in scope.remember(ghost, undone)[1]
    nobody = begun.program._replace(name="relate 123")
    assert "RELATE has changed" in scope.remember(ghost, change._replace(program=nobody))[1]
    place = scope.programs.places[scope.first.tasks[0].place]
    ended = begun._replace(end=place._replace(end={"statusCode": 200}))
    assert "was never the state" in scope.remember(scope.ghost, ended)[1]
    answered = change._replace(end=place._replace(end={"statusCode": 200}))
    assert "has no edge" in scope.remember(scope.ghost, answered)[1]


def changed(scope: Scope, contents: Contents, **values: Any) -> Contents:
    """The contents with another row of the post, but for what is None."""
    (row,) = scope.store.rows(contents, names.POSTS)
    item = {name: value for name, value in {**row, **values}.items() if value is not None}
    return write(scope, contents, "put_item", TableName="Posts", Item=item)


@pytest.mark.usefixtures("doors")
def test_an_edit_undone_a_post_that_is_back_and_an_untrue_answer_are_noticed() -> None:
    scope = posts.post("edit, message to edit, retract")
    task = next(
        task
        for task in scope.first.tasks
        if scope.programs.places[task.place].program.name == "edit at 1"
    )
    edited = scope.steps.take(scope.first, Step(task, Fate.DONE, begins=False))[1]
    assert scope.remember(None, edited) == (None, "")

    def told(before: Contents, after: Contents) -> str:
        return scope.remember(None, edited._replace(before=before, after=after, end=None))[1]

    old, new = edited.before, edited.after
    assert "is undone" in told(new, old)
    assert "has the body" in told(old, changed(scope, new, body={"S": "{}"}))
    gone = changed(scope, new, deleted_at={"S": "2026"}, body=None, first_body_hash=None)
    assert "a tombstone has ['edited_at']" in told(new, gone)
    gone = changed(scope, gone, edited_at=None)
    assert not told(new, gone)
    assert "is back" in told(gone, new)
    assert "ended with 200" in scope.remember(None, edited._replace(after=old))[1]

    place = edited.end
    assert place is not None

    def answered(status: int) -> str:
        end = place._replace(end={"statusCode": status})
        return scope.remember(None, edited._replace(end=end))[1]

    assert not answered(503)
    for status in (404, 409, 410):
        assert f"ended with {status}" in answered(status)
    letter = Letter(f"{names.PUBLISH.name}Dlq", scope.letters[0].body, "p", START_MS)
    assert "dead letters" in scope.broken_when_quiet(new, [letter], None)
    assert "there is no post" in scope.broken_when_quiet(scope.store.empty, [], None)

"""`fanfold console` on a stack: the ring, the queues, what was looked up, and what that took."""

from __future__ import annotations

from dataclasses import dataclass, replace
from unittest.mock import Mock

import pytest

from fanfold import names
from fanfold.follows.edges_table import EdgesTable
from fanfold.ids import ref_id_for
from fanfold_cli.console import watching
from fanfold_cli.console.stack_reading import LIMIT, SAMPLES
from fanfold_cli.console.views import BUSY, GOOD, State
from fanfold_cli.console.watching import Watching, first_state
from fanfold_cli.follows.graph import Graph
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post, Record
from proof.hurt import stage as hurt_stage
from proof.hurt.meter import Meter
from proof.hurt.stage import Stage
from tests.commands import Stack, outputs, run_on
from tests.integration.cli.health.test_status import CALM, SERVICE, CloudWatch, Lambda, key
from tests.integration.cli.test_cli_dlq import bury
from tests.service import AT, POST, REGION, System

FOLLOWERS = 200


@dataclass
class Console:
    """A console of the stack, with the state that it shows."""

    watching: Watching
    state: State
    cloudwatch: CloudWatch

    def look(self) -> State:
        self.state = watching.Refreshing(self.state, self.watching.read).current()
        return self.state

    def look_up(self) -> None:
        """Look up what no state waits for; the next one has it."""
        self.watching.look_up()


@pytest.fixture
def console(system: System) -> Console:
    cloudwatch = CloudWatch()
    clients = {"cloudwatch": cloudwatch, "lambda": Lambda()}
    stack = Stack(REGION, None, outputs(), clients)
    return Console(Watching(stack), first_state(stack, may_operate=False), cloudwatch)


@pytest.fixture
def half_delivered(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """A post of which two of four segments are delivered."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    system.give_followers(FOLLOWERS)
    system.publish()
    system.pump("Publish")
    for _ in range(2):
        assert system.pump_once("Bulk")


@pytest.mark.usefixtures("half_delivered")
def test_the_ring_shows_what_the_ledger_says_and_what_the_timelines_have(
    system: System, console: Console
) -> None:
    console.look()
    console.look_up()
    state = console.look()
    ring = state.ring
    assert ring is not None
    assert (ring.ref_id, ring.segments, len(ring.pending)) == (POST, 4, 2)
    assert sum(ring.have) == len(ring.have) / 2
    looked_up = [(cell, found) for cell, found in enumerate(ring.found) if found >= 0]
    assert len(looked_up) == SAMPLES
    assert all(found == ring.have[cell] for cell, found in looked_up)
    assert (state.headline.mood, state.open) == (BUSY, 1)
    assert (state.queues["bulk"].waiting, state.queues["express"].owed) == (2, 0)
    for row in system.rows(names.TIMELINES):
        key = {name: row[name] for name in ("user_id", "sort_key")}
        system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)
    console.look_up()
    ring = console.look().ring
    assert ring is not None
    assert (sum(ring.have) > 0, 1 in ring.found) == (True, False), "the ledger claims too much"


@pytest.mark.usefixtures("half_delivered")
def test_the_post_of_the_ring_is_read_to_its_end_however_many_others_are_open(
    system: System, console: Console
) -> None:
    for number in range(LIMIT + 10):
        system.clock.advance(1)
        system.publish(user=f"other-{number}")
    console.look()
    # Ten of the others end: now more are known than a refresh keeps.
    assert system.pump_once("Publish")
    console.look()
    system.pump("Bulk")
    state = console.look()
    (ring,) = [each for each in (state.ring, *state.others) if each and each.ref_id == POST]
    assert (ring.state, ring.delivered, state.open) == ("complete", FOLLOWERS, LIMIT)
    assert state.ring != ring  # it shows one that is open
    assert [event.text for event in state.events if event.kind == GOOD] == [
        f"{FOLLOWERS} followers have the post of ada in 30 s."
    ]


@pytest.mark.usefixtures("half_delivered")
def test_a_refresh_says_what_it_took(console: Console) -> None:
    costs = []
    for _ in range(4):
        costs.append(console.look().cost)
        console.look_up()
    # The followers that are looked up are found once, after the first refresh.
    for cost, units in zip(costs, (2, 50, 18, 18), strict=True):
        assert cost.startswith(f"A refresh takes about {units} read units of DynamoDB and 8 calls")


@pytest.mark.usefixtures("half_delivered")
def test_a_refresh_sees_which_lane_is_paused(console: Console) -> None:
    assert "paused" not in console.look().headline.text
    console.watching.deployment.client("lambda").paused = ("Bulk",)
    state = console.look()
    assert "bulk is paused; nobody has noted" in state.headline.text
    assert "9 calls of SQS" in state.cost


@pytest.mark.usefixtures("half_delivered")
def test_a_refresh_does_not_wait_for_the_followers_that_are_looked_up(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = Mock(side_effect=AssertionError("The state waits for 32 reads in a row."))
    monkeypatch.setattr(EdgesTable, "edges", edges)
    state = console.look()
    assert (state.open, state.headline.mood) == (1, BUSY)


@pytest.mark.usefixtures("half_delivered")
def test_the_rate_on_aws_is_the_metric_of_both_lanes_once_a_minute(console: Console) -> None:
    for lane in ("express", "bulk"):
        about = {"service": f"{SERVICE}deliver", names.LANE: lane}
        console.cloudwatch.values[key(names.ENTRIES_DELIVERED, "Sum", **about)] = [600.0]
    for _ in range(2):
        console.look_up()
        state = console.look()
        assert state.rate == 20.0
        # The minute that is counted has ended a minute ago at least.
        assert 60 <= state.read_at - state.rate_at < 120
    assert len(console.cloudwatch.windows) == 2, "of the rate, and of the last audit"


def test_the_page_says_what_fanfold_status_says(system: System, console: Console) -> None:
    assert console.look().status == "", "the alarms are not known yet"
    console.look_up()
    assert console.look().status == CALM
    bury(system, "Bulk", "1")
    dead = "Not everything is well: 1 dead letter (bulk 1)."
    assert (
        console.look().status
        == dead
        == run_on(console.watching.deployment, "status").stdout.splitlines()[-1]
    )


class NoPool:
    """The demo's workers, none of which works."""

    twice, killed, copies = False, 0, 0

    def views(self) -> tuple[()]:
        return ()


@pytest.fixture
def stage(system: System) -> Stage:
    """The demo's stage, of two publishers."""
    graph = Graph({"ada": frozenset({"bob", "cyd"}), "eve": frozenset({"bob"})})
    made = Stage(Stack(REGION, None, outputs(), {}), graph, Meter(dict, "Timelines"))  # type: ignore[arg-type]
    made.pool = NoPool()  # type: ignore[assignment]
    made._readers = []
    return made


def note(record: Record, publisher: str, key: str) -> None:
    """Note a post that was published with this key."""
    record.add(Post(ref_id_for(publisher, key), publisher, AT, 0))


def test_what_an_earlier_publish_of_the_demo_owes_is_open_until_it_has_ended(
    system: System, stage: Stage
) -> None:
    for tag in ("post-1", "post-2"):
        system.publish(tag)
        note(stage.people.record, "ada", tag)
    first = stage.shown.read(stage.shown.state)
    assert (first.open, first.queues["publish"].waiting) == (2, 2)
    system.pump()
    assert stage.shown.read(first).open == 0


def test_the_demo_shows_a_post_while_the_others_of_its_publish_are_sent(
    system: System, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = []

    def publish_slowly(people: People, _graph: Graph, *, tag: str) -> None:
        for user in ("ada", "eve"):
            system.publish(tag, user=user)
            note(people.record, user, tag)
            ring = stage.shown.read(stage.shown.state).ring
            shown.append(ring.ref_id if ring else "")

    monkeypatch.setattr(hurt_stage, "publish", publish_slowly)
    stage._tag = "hurt"
    stage.publish()
    stage.publish()
    assert shown == [ref_id_for("ada", f"hurt-{number}") for number in (1, 1, 2, 2)]


def test_dead_letters_are_counted(system: System, console: Console) -> None:
    console.look()
    system.take({"Records": [system.record("Publish", "{")]})
    state = console.look()
    assert (state.queues["publish"].dead, state.dead) == (1, 1)
    assert state.headline.text == "The queues are empty. 1 dead letter: see below."


def test_a_stack_that_does_not_answer_is_told_and_asked_again(console: Console) -> None:
    console.watching = Watching(replace(console.watching.deployment, outputs={}))
    state = console.look()
    assert state.headline.title == "The stack cannot be read"
    assert "deploy it again" in state.headline.text

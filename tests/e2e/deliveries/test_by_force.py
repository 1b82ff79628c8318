"""Delivery with faults, killed workers and copied messages, over real sockets.

This module has its own engine. The workers of proof/simulation/worker_processes.py replace the
engine's poller for PLAN and DELIVER, and reach DynamoDB through proof/model/faults.py.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from fanfold import clock, names, times
from fanfold.aws.items import MAX_PUTS, number, text
from fanfold.follows import ring
from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.run.people import People
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import judge
from fanfold_cli.stack import Deployment
from proof.hurt.building import load_edges
from proof.model import faults
from proof.model.dynamodb.capacity import read_units
from proof.model.faults import Rates
from proof.simulation import worker_processes
from tests.e2e.clients import entries, eventually, left, made_up
from tests.lifetimes import LIFETIME_HOURS

pytestmark = pytest.mark.slow

# Before a publish, so that an audit claims the post for them.
FOLLOWED_MS = 5 * 60_000
# For a segment of thousands of followers.
VISIBILITY_SECONDS = 90
PATIENCE_SECONDS = 900.0
SEED = 20

# 20,000 entries: four segments in the bulk lane, two in the express lane, and three in one hop.
ALL = {
    "celebrity": 14_000,
    **{f"band-{number}": 1_500 for number in range(2)},
    **{f"singer-{number}": 1_000 for number in range(3)},
}
# Two segments in the bulk lane, and one in one hop. No publisher is in both.
FEW = {"painter": 5_500, "poet": 500}
MORE = {"actor": 5_500, "dancer": 500}


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    """Users of the app on an engine of its own, which polls no queue of a fan-out."""
    home = Home(tmp_path_factory.mktemp("by-force"))
    try:
        deployed = deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS)
        worker_processes.stop_polling(deployed, visibility_seconds=VISIBILITY_SECONDS)
        yield People(deployed)
    finally:
        deploy.take_down(home)


@dataclass(frozen=True)
class Outcome:
    """What was counted in one run: requests and faults of batches, and what happened to workers."""

    entries: int
    batches: Counter[str]
    workers: Counter[str]

    @property
    def puts_requested(self) -> float:
        """Puts in the workers' requests, for each entry."""
        return self.batches["asked"] / self.entries

    @property
    def puts_applied(self) -> float:
        """Puts that took effect and are paid for, for each entry."""
        return self.batches["written"] / self.entries

    def __str__(self) -> str:
        def listed(counts: Counter[str]) -> str:
            return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counts.items()))

        return (
            f"{self.entries:,} entries, {self.puts_requested:.3f} puts requested and "
            f"{self.puts_applied:.3f} applied for each\n"
            f"  batches: {listed(self.batches)}\n  workers: {listed(self.workers)}"
        )


def deliver(
    people: People,
    audiences: Mapping[str, int],
    *,
    rates: Rates,
    plan: worker_processes.Plan,
    log: Path,
) -> Outcome:
    """Publish to every audience, deliver, and check every row, every count and every queue."""
    stack, begun = people.deployment, time.time()
    followers = {publisher: made_up(count) for publisher, count in audiences.items()}
    with patch.object(clock, "now_ms", lambda: round(begun * 1000) - FOLLOWED_MS):
        load_edges(stack, followers)
    people.record.follow_all(followers, begun, time.time())
    posts = [people.draft(each, ref_id=f"post-of-{each}") for each in audiences]
    assert stack.endpoint is not None
    with (
        log.open("wb") as written,
        faults.faulty_way_to(stack.endpoint.url, rates, plan.seed) as front,
        worker_processes.running(
            plan, worker_processes.environment(stack, front.url), log=written
        ) as workers,
    ):
        for post in posts:
            # A copy that another worker plans at the same time costs its entries again.
            people.send(post, *([post] if plan.copies else []))

        def is_at_rest() -> bool:
            queues = [stack.output(queue.url_output) for queue in names.QUEUES]
            return all(map(people.is_delivered, posts)) and not any(
                left(stack, url) for url in queues
            )

        eventually(is_at_rest, patience=PATIENCE_SECONDS)
    assert judge(people.record, rows=rows(stack)).failures == []
    assert {post.ref_id: post.delivered for post in posts} == {
        f"post-of-{publisher}": count for publisher, count in audiences.items()
    }
    dead = {queue.name: left(stack, stack.output(queue.dlq_url_output)) for queue in names.QUEUES}
    assert dead == dict.fromkeys(dead, 0)
    return Outcome(sum(audiences.values()), front.counted, workers)


@pytest.fixture(scope="module")
def outcome(people: People, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """A delivery to `ALL` with faults, kills and copies."""
    plan = worker_processes.Plan(seed=SEED, kills=0.35, copies=0.35)
    log = tmp_path_factory.mktemp("log") / "workers.log"
    return deliver(people, ALL, rates=faults.BAD_DAY, plan=plan, log=log)


def test_every_follower_has_every_post_once_whatever_fails_is_killed_or_copied(
    outcome: Outcome,
) -> None:
    kinds = {"partial", "throttled"}
    kinds |= {f"{fault} {when}" for fault in ("broken", "reset") for when in ("before", "after")}
    assert {kind for kind, count in outcome.batches.items() if count} >= kinds
    assert outcome.workers["killed"] > 0
    assert outcome.workers["copied"] > 0
    assert outcome.workers["ended by itself"] == 0


# Audits of what was delivered


def test_an_audit_finds_what_was_deleted_by_hand_and_its_repair_writes_exactly_that(
    people: People, outcome: Outcome
) -> None:
    stack, before = people.deployment, sorted(entries(people.deployment))
    assert len(before) >= outcome.entries
    followers, post = made_up(ALL["celebrity"]), ("--post", "post-of-celebrity")
    put_rows(stack, "celebrity", followers)
    lost = Random(SEED).sample(followers, 30)
    take(stack, lost)
    with reads_counted() as counted:
        found, said = audit(stack, *post, exit_code=1)
    assert found["findings"]["entry_missing"] == 30
    assert sorted(each["user_id"] for each in found["examples"]) == sorted(lost)
    forecast = re.search(r"about ([\d,]+) units", said)
    assert forecast
    # The engine says half a unit of any read, so what it was asked and has answered is counted.
    assert int(forecast[1].replace(",", "")) == pytest.approx(counted["units"], rel=0.1)
    repaired, _ = audit(stack, *post, "--repair")
    assert repaired["repaired"] == 30
    assert sorted(entries(stack)) == before
    found, _ = audit(stack, *post)
    assert not any(found["findings"].values())


@pytest.mark.usefixtures("outcome")
def test_a_lost_segment_is_found_by_every_audit_of_its_post(people: People) -> None:
    stack, before = people.deployment, sorted(entries(people.deployment))
    followers = made_up(ALL["celebrity"])
    put_rows(stack, "celebrity", followers)
    # In a sample of every post, a place in each segment: nothing is left to chance.
    lost = [user for user in followers if ring.shard_of(ring.position(user), 2) == 1]
    assert 0.2 < len(lost) / len(followers) < 0.3
    take(stack, lost)
    for scope in (("--largest", "1"), ("--sample", "40")):
        found, _ = audit(stack, *scope, exit_code=1)
        assert found["findings"]["entry_missing"] >= 1
    found, _ = audit(stack, "--post", "post-of-celebrity", "--repair")
    assert (found["findings"]["entry_missing"], found["repaired"]) == (len(lost), len(lost))
    assert sorted(entries(stack)) == before


def audit(stack: Deployment, *options: str, exit_code: int = 0) -> tuple[Any, str]:
    """What `fanfold audit --json` answers, parsed, and what it says meanwhile."""
    assert stack.home
    rest = ("--rate", "1e6", "--json", "--home", str(stack.home.path))
    ran = CliRunner().invoke(app, ["audit", *options, *rest])
    assert ran.exit_code == exit_code, (ran.output, ran.exception)
    return json.loads(ran.stdout), ran.stderr


def put_rows(stack: Deployment, publisher: str, users: Sequence[str]) -> None:
    """The rows of the follows whose edges were loaded."""
    began_ms = clock.now_ms() - 24 * 3_600_000
    row = {
        "publisher_id": text(publisher),
        "state": text("followed"),
        "version": number(1),
        "followed_at": text(times.to_text(began_ms)),
        "changed_at": number(began_ms),
    }
    table, dynamodb = stack.settings().following_table, stack.client("dynamodb")
    for start in range(0, len(users), MAX_PUTS):
        some = [{"user_id": text(user), **row} for user in users[start : start + MAX_PUTS]]
        puts = [{"PutRequest": {"Item": item}} for item in some]
        assert not dynamodb.batch_write_item(RequestItems={table: puts})["UnprocessedItems"]


def take(stack: Deployment, users: Sequence[str]) -> None:
    """Delete the celebrity's post from these timelines by hand."""
    fanout, table = stack.stores().ledger.get("post-of-celebrity"), stack.settings().timelines_table
    assert fanout
    for start in range(0, len(users), MAX_PUTS):
        some = users[start : start + MAX_PUTS]
        keys = [{"user_id": text(user), "sort_key": text(fanout.sort_key)} for user in some]
        deletes = [{"DeleteRequest": {"Key": key}} for key in keys]
        stack.client("dynamodb").batch_write_item(RequestItems={table: deletes})


@contextmanager
def reads_counted() -> Iterator[dict[str, float]]:
    """Count read units at the clients by what is asked and answered, whatever DynamoDB says."""
    counted, made = {"units": 0.0}, aws.client

    def client(service: str, *arguments: Any) -> Any:
        found = made(service, *arguments)
        if service == "dynamodb":
            found.meta.events.register("before-parameter-build.dynamodb", keep)
            found.meta.events.register("after-call.dynamodb", count)
        return found

    def keep(params: Any, context: Any, **_: Any) -> None:
        context["asked"] = params

    def count(model: Any, parsed: Any, context: Any, **_: Any) -> None:
        asked = context["asked"]
        if model.name == "BatchGetItem":
            for table, wanted in asked["RequestItems"].items():
                sizes = [size(item) for item in parsed["Responses"][table]]
                sizes += [0] * (len(wanted["Keys"]) - len(sizes))  # of keys without an item
                add(sizes, wanted)
        elif model.name == "GetItem":
            add([size(parsed.get("Item", {}))], asked)
        elif model.name in ("Query", "Scan"):
            add([sum(map(size, parsed["Items"]))], asked)

    def add(sizes: Sequence[int], asked: Any) -> None:
        is_consistent = asked.get("ConsistentRead", False)
        for each in sizes:
            counted["units"] += read_units(each, consistent=is_consistent)

    def size(item: Any) -> int:
        return sum(len(name) + len(str(*value.values())) for name, value in item.items())

    with patch.object(aws, "client", client):
        yield counted


# How many puts are requested again depends on how fast the workers are. With kills and copies it
# depends more on whom they strike: 0.20 to 0.86 of the puts again in four seeds.


@pytest.mark.speed
def test_a_faulty_table_costs_at_most_half_of_the_requests_again(
    people: People, tmp_path: Path
) -> None:
    plan = worker_processes.Plan(seed=SEED)
    log = tmp_path / "workers.log"
    outcome = deliver(people, FEW, rates=faults.BAD_DAY, plan=plan, log=log)
    assert outcome.puts_requested <= 1.5, outcome
    assert outcome.puts_applied <= 1.1, outcome


@pytest.mark.speed
def test_without_faults_every_entry_is_put_once(people: People, tmp_path: Path) -> None:
    plan = worker_processes.Plan(seed=SEED)
    log = tmp_path / "workers.log"
    outcome = deliver(people, MORE, rates=faults.NONE, plan=plan, log=log)
    assert outcome.puts_requested <= 1.01, outcome

"""Delivery under faults, kills and copies on real sockets: every entry once, and the ledger right.

The lanes of an engine of its own are fed by simulation/worker_processes.py, whose workers reach
DynamoDB through aws_model/faults.py.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aws_model import faults
from aws_model.faults import Rates
from fanfold import names
from fanfold.fanout.ledger import COMPLETE, Ledger
from fanfold.follows.edges_table import EdgesTable
from fanfold.ids import split_sort_key
from fanfold_cli import aws
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from simulation import worker_processes
from tests.e2e.clients import eventually, send
from tests.lifetimes import LIFETIME_HOURS

pytestmark = pytest.mark.thorough

LANES = (names.EXPRESS, names.BULK)
# How long a message of a killed worker stays away. As deployed it is six minutes, in case that
# Lambda is throttled; here it only has to be longer than an invocation takes. The number of
# receives is as deployed, ten: with one kill in three, no message is killed ten times.
VISIBILITY_SECONDS = 30
# Most of a run is waiting for the messages of killed workers.
PATIENCE_SECONDS = 240.0
SEED = 20

# 20,000 entries: four segments in the bulk lane and six in the express lane.
ALL = {"celebrity": 14_000, **{f"singer-{number}": 1_000 for number in range(6)}}
# Two segments in the bulk lane and one in the express lane.
FAULTS_ONLY = {"painter": 5_500, "poet": 500}
UNHURT = {"actor": 5_500, "dancer": 500}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """The app on an engine of its own, which feeds no lane."""
    home = Home(tmp_path_factory.mktemp("by-force"))
    try:
        deployed = deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS)
        for lane in LANES:
            _take_over(deployed, deployed.output(lane.url_output))
        yield deployed
    finally:
        deploy.take_down(home)


def _take_over(stack: Deployment, url: str) -> None:
    """Have the engine leave a lane alone, and show a lost message again soon."""
    sqs, lambda_ = stack.client("sqs"), stack.client("lambda")
    told = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
    found = lambda_.list_event_source_mappings(EventSourceArn=told["QueueArn"])
    for mapping in found["EventSourceMappings"]:
        lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    sqs.set_queue_attributes(
        QueueUrl=url, Attributes={"VisibilityTimeout": str(VISIBILITY_SECONDS)}
    )


@dataclass(frozen=True)
class Force:
    """What happened in a run."""

    entries: int
    batches: Counter[str]
    workers: Counter[str]

    @property
    def asked(self) -> float:
        """Puts that the workers asked for, for each entry."""
        return self.batches["asked"] / self.entries

    @property
    def written(self) -> float:
        """Puts that took effect, and are paid for, for each entry."""
        return self.batches["written"] / self.entries

    def __str__(self) -> str:
        def told(counted: Counter[str]) -> str:
            return ", ".join(f"{count:,} {kind}" for kind, count in sorted(counted.items()))

        return (
            f"{self.entries:,} entries, {self.asked:.3f} puts asked for and {self.written:.3f} "
            f"written for each\n  batches: {told(self.batches)}\n  workers: {told(self.workers)}"
        )


def follow(stack: Deployment, audiences: Mapping[str, int]) -> None:
    """Write the edges alone: nothing here settles them."""
    followers = EdgesTable(stack.client("dynamodb"), stack.settings().followers_table)
    left = followers.put_all(
        (publisher, user, 1, 0) for publisher, count in audiences.items() for user in users(count)
    )
    assert not left


def users(count: int) -> list[str]:
    return [f"reader-{number:05d}" for number in range(count)]


def rows(stack: Deployment) -> list[tuple[str, str]]:
    """Every entry there is: whose, and of which post."""
    scan = stack.client("dynamodb").get_paginator("scan")
    pages = scan.paginate(TableName=stack.settings().timelines_table, ConsistentRead=True)
    items = [item for page in pages for item in page["Items"]]
    return [(item["user_id"]["S"], split_sort_key(item["sort_key"]["S"])[1]) for item in items]


def left(stack: Deployment, url: str) -> int:
    """Messages of a queue: waiting, hidden and delayed."""
    kinds = ["", "NotVisible", "Delayed"]
    told = stack.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=[f"ApproximateNumberOfMessages{kind}" for kind in kinds]
    )
    return sum(int(count) for count in told["Attributes"].values())


def environment(stack: Deployment, dynamodb: str) -> dict[str, str]:
    """What the deployed worker is told, but for the way to DynamoDB."""
    found = stack.client("lambda").list_functions()["Functions"]
    variables: list[dict[str, Any]] = [
        function["Environment"]["Variables"]
        for function in found
        if function["Handler"].startswith("functions.deliver.")
    ]
    assert len(variables) == 1
    assert stack.endpoint is not None
    return {
        **aws.local_environment(stack.endpoint),
        **variables[0],
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb,
    }


def deliver(
    stack: Deployment,
    audiences: Mapping[str, int],
    *,
    rates: Rates,
    plan: worker_processes.Plan,
    log: Path,
) -> Force:
    """Publish to every audience, deliver by force, and compare every row and every count."""
    follow(stack, audiences)
    before = rows(stack)
    posts = {f"post-of-{publisher}": publisher for publisher in audiences}
    assert stack.endpoint is not None
    with (
        log.open("wb") as written,
        faults.faulty_way_to(stack.endpoint, rates, plan.seed) as front,
        worker_processes.running(plan, environment(stack, front.url), log=written) as workers,
    ):
        for ref_id, publisher in posts.items():
            event = {"type": "post.published", "publisher_id": publisher, "ref_id": ref_id}
            send(stack, event, event)
        fanouts = Ledger(stack.client("dynamodb"), stack.settings().fanouts_table)

        def is_complete(ref_id: str) -> bool:
            row = fanouts.get(ref_id)
            return row is not None and row.state == COMPLETE

        def is_at_rest() -> bool:
            queues = [stack.output(queue.url_output) for queue in names.QUEUES]
            return all(map(is_complete, posts)) and not any(left(stack, url) for url in queues)

        eventually(is_at_rest, patience=PATIENCE_SECONDS)
    expected = [
        (user, ref_id)
        for ref_id, publisher in posts.items()
        for user in users(audiences[publisher])
    ]
    assert sorted(rows(stack)) == sorted([*before, *expected])
    for ref_id, publisher in posts.items():
        row = fanouts.get(ref_id)
        assert row is not None
        assert (row.delivered, row.pending) == (audiences[publisher], frozenset())
    dead = {queue.name: left(stack, stack.output(queue.dlq_url_output)) for queue in names.QUEUES}
    assert dead == dict.fromkeys(dead, 0)
    return Force(len(expected), front.counted, workers)


def test_everyone_has_every_post_once_whatever_fails_dies_or_comes_twice(
    stack: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = worker_processes.Plan(seed=SEED, kills=0.35, copies=0.35)
    force = deliver(stack, ALL, rates=faults.BAD_DAY, plan=plan, log=tmp_path / "workers.log")
    with capsys.disabled():
        print(f"\nBy force: {force}")
    kinds = {"partial", "throttled"}
    kinds |= {f"{fault} {when}" for fault in ("broken", "reset") for when in ("before", "after")}
    assert {kind for kind, count in force.batches.items() if count} >= kinds
    assert force.workers["killed"] > 0
    assert force.workers["copied"] > 0
    assert force.workers["ended by itself"] == 0
    assert force.written <= 1.5


def test_a_faulty_table_is_asked_half_as_often_again_at_most(
    stack: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = worker_processes.Plan(seed=SEED)
    log = tmp_path / "workers.log"
    force = deliver(stack, FAULTS_ONLY, rates=faults.BAD_DAY, plan=plan, log=log)
    with capsys.disabled():
        print(f"\nFaults only: {force}")
    assert force.asked <= 1.5
    assert force.written <= 1.1


def test_without_faults_every_entry_is_written_once(
    stack: Deployment, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = worker_processes.Plan(seed=SEED)
    force = deliver(stack, UNHURT, rates=faults.NONE, plan=plan, log=tmp_path / "workers.log")
    with capsys.disabled():
        print(f"\nUnhurt: {force}")
    assert force.asked <= 1.01

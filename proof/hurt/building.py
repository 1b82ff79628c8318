"""Sets up the stage of `fanfold demo --hurt`, and removes it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from fanfold import names
from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.segment_size import count_for
from fanfold.follows.edges_table import EdgesTable
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local import deploy
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from proof.hurt.meter import Meter
from proof.hurt.pool import Pool
from proof.hurt.stage import HIDDEN_SECONDS, Stage
from proof.model.endpoint import forwarding_to, serving
from proof.simulation import worker_processes

LIFETIME_HOURS = 2.0
# For writing edges into an empty table.
LOAD_THREADS = 4


def home_beside(home: Home) -> Home:
    """The home of the demo's own engine, so that the user's engine is not touched."""
    return Home(home.path.with_name(f"{home.path.name}-hurt"))


@contextmanager
def alone(home: Home) -> Iterator[None]:
    """Reserve the home for one demo; raises `ExpectedError` if another one uses it."""
    home.claim()
    with deploy.alone(home, "demo.lock", "fanfold demo --hurt"):
        yield


@contextmanager
def staged(home: Home, graph: Graph, *, seconds: float) -> Iterator[Stage]:
    """Set up the stage, and remove it in any case.

    The largest delivery takes about `seconds`.
    """
    with alone(home), _staged(home, graph, seconds) as stage:
        yield stage


@contextmanager
def _staged(home: Home, graph: Graph, seconds: float) -> Iterator[Stage]:
    # End the engine of an earlier run that was killed.
    try:
        deployment = deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS, fresh=True, stays=False)
        assert deployment.endpoint is not None
        worker_processes.stop_polling(deployment, visibility_seconds=HIDDEN_SECONDS)
        with waiting_for("the follows to be loaded"):
            load_edges(deployment, graph.followers)
        with forwarding_to(deployment.endpoint.url) as backend:
            meter = Meter(backend, deployment.settings().timelines_table)
            with serving(meter.answer) as url:
                stage = Stage(deployment, graph, meter)
                pool = Pool(
                    _environment(deployment, url, graph, seconds),
                    deployment.client("sqs"),
                    home.path / "workers.log",
                    stage.story.add,
                )
                try:
                    pool.wait_until_ready()
                    stage.use(pool)
                    yield stage
                finally:
                    pool.close()
    finally:
        deploy.take_down(home)


def load_edges(deployment: Deployment, followers: Mapping[str, Iterable[str]]) -> None:
    """Write the edges that deliveries read, in batches: single follows would take minutes."""
    table = EdgesTable(deployment.client("dynamodb"), deployment.settings().followers_table)

    def load(publisher: str) -> None:
        left = table.put_all((publisher, user, 1, 0) for user in followers[publisher])
        if left:
            raise ExpectedError(f"The engine did not take {len(left):,} follows of {publisher}.")

    with ThreadPoolExecutor(LOAD_THREADS) as threads:
        list(threads.map(load, followers))


def _environment(
    deployment: Deployment, dynamodb: str, graph: Graph, seconds: float
) -> dict[str, str]:
    """The deployed worker's, with a slow pace that people can watch."""
    largest = len(graph.followers[graph.largest()[0]])
    # PLAN's estimate of the followers may be a little too high.
    segments = count_for(largest + largest // 20)
    rate = max(1, round(largest / segments / seconds))
    found = worker_processes.environment(deployment, dynamodb)
    for lane, share in ((names.BULK, 1), (names.EXPRESS, 3), (names.PUBLISH, 3)):
        found[f"{lane.name.upper()}_WORKER_RATE"] = str(rate * share)
        found[f"{lane.name.upper()}_SLOWEST_RATE"] = str(max(1, rate * share // 2))
        found[f"{lane.name.upper()}_BURST"] = str(MAX_PUTS)
    path = [str(CHECKOUT), os.environ.get("PYTHONPATH", "")]
    return {**found, "PYTHONPATH": os.pathsep.join(filter(None, path))}

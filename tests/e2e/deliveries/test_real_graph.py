"""A real follow graph: posts by its largest publishers reach exactly their followers."""

import time
from pathlib import Path

import pytest

from fanfold_cli.follows import graph, seeding
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.run.people import People
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import judge
from fanfold_cli.run.watch import Watched, await_delivery
from fanfold_cli.stack import Deployment
from tests.e2e.clients import PATIENCE_SECONDS

pytestmark = pytest.mark.thorough

DATA = CHECKOUT.parent / "shared" / "data" / "follow-graph.csv.gz"


@pytest.fixture(scope="module")
def real() -> Graph:
    if not DATA.exists():
        pytest.skip(f"the real graph is not beside this checkout: {DATA}")
    return graph.read(Path(DATA))


def largest(whole: Graph, count: int) -> Graph:
    """The follows of the publishers with the most followers."""
    return Graph({name: whole.followers[name] for name in whole.largest()[:count]})


def check(stack: Deployment, part: Graph) -> None:
    """Load the graph, publish one post of each publisher, and hold every row to the graph."""
    people, begun = People(stack), time.time()
    assert seeding.seed(stack, part) == part.edges
    people.record.follow_all(part.followers, begun, time.time())
    posts = [people.draft(publisher) for publisher in part.followers]
    people.send(*posts)
    watched = [Watched(post, len(part.followers[post.publisher])) for post in posts]
    assert await_delivery(people, watched, patience=PATIENCE_SECONDS) == []
    verdict = judge(people.record, rows=rows(stack), ours=None)
    assert (verdict.failures, verdict.expected) == ([], part.edges)


@pytest.mark.slow
def test_posts_by_the_largest_real_publishers_reach_exactly_their_followers(
    stack: Deployment, real: Graph
) -> None:
    part = largest(real, 3)
    assert [len(part.followers[name]) for name in part.largest()][:2] == [3469, 3108]
    check(stack, part)


def test_loading_a_graph_again_changes_nothing(stack: Deployment, real: Graph) -> None:
    smallest = Graph({name: real.followers[name] for name in real.largest()[-100:]})
    assert seeding.seed(stack, smallest) == smallest.edges
    assert seeding.seed(stack, smallest) == 0


@pytest.mark.slow
def test_posts_by_every_real_publisher_of_fifty_followers_reach_exactly_their_followers(
    stack: Deployment, real: Graph
) -> None:
    fifty = sum(len(followers) >= 50 for followers in real.followers.values())
    whole = largest(real, fifty)
    done = {name: whole.followers[name] for name in whole.largest()[3:]}
    check(stack, Graph(done))

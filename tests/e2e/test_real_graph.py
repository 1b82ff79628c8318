"""A real follow graph: posts by its largest publishers reach exactly their followers."""

import uuid
from pathlib import Path

import pytest

from fanfold.fanout.ledger import Ledger
from fanfold_cli.follows import graph, seeding
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.stack import Deployment
from tests.e2e.clients import entries, eventually, is_complete, send

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
    """Load the graph, publish one post of each publisher, and compare every entry."""
    assert seeding.seed(stack, part) == part.edges
    posts = {f"{publisher}-{uuid.uuid4().hex}": publisher for publisher in part.followers}
    expected = sorted(
        (follower, ref_id)
        for ref_id, publisher in posts.items()
        for follower in part.followers[publisher]
    )
    for ref_id, publisher in posts.items():
        send(stack, {"type": "post.published", "publisher_id": publisher, "ref_id": ref_id})
    ledger = Ledger(stack.client("dynamodb"), stack.settings().fanouts_table)
    for ref_id in posts:
        eventually(lambda ref_id=ref_id: is_complete(ledger, ref_id))  # type: ignore[misc]
    assert sorted(entry for entry in entries(stack) if entry[1] in posts) == expected


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

"""Nobody hurts the others: how long their posts take while one publisher floods, on the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import chain
from statistics import median

import pytest

from fanfold.errors import TooOften
from proof.simulation.stage import stores
from proof.simulation.timed.model import warm
from proof.simulation.timed.system import RATE, System
from proof.simulation.timed.tables import follow

# A new table: what one floods with, the others miss.
CAPACITY = 4_000
# At the rate alone, that is a quarter of the table for good.
FLOODER, FLOODED = "f1000d00-0000-4000-8000-000000000001", 1_000
POSTS = 2 * RATE.limit
OTHERS, FOLLOWERS, APART_SECONDS = 6, 100, 0.5
PATIENCE_SECONDS = 120
# Of the others beside a flood, the median at most, against the median of the same posts alone.
BOUND = 3


def others_beside(flood: Callable[[System], object], system: System) -> list[float]:
    """Seconds from each publish of another to its last follower, while somebody floods."""
    posts = {f"ada{number:05d}": f"9057{number:05d}" for number in range(OTHERS)}
    for publisher in posts:
        follow(system.database, publisher, FOLLOWERS)
    follow(system.database, FLOODER, FLOODED)
    begun = {post: APART_SECONDS * (number + 1) for number, post in enumerate(posts.values())}
    scheduler = system.scheduler
    with system.virtual_time():
        flood(system)
        for publisher, post in posts.items():
            scheduler.at(begun[post], partial(system.publish, publisher, post))
        while not all(map(system.is_complete, begun)):
            assert scheduler.now < PATIENCE_SECONDS
            scheduler.run_to(scheduler.now + APART_SECONDS)
    return [system.written(post).last_at - since for post, since in begun.items()]


def nobody(_system: System) -> None: ...


def by_queue(posts: int) -> Callable[[System], None]:
    def flood(system: System) -> None:
        system.send(*((FLOODER, f"f{number:08d}") for number in range(posts)))

    return flood


def by_http(posts: int, refused: list[str]) -> Callable[[System], None]:
    """Ten clients, each of which sends the next post when the last one was answered."""

    def client(system: System, number: int) -> None:
        for ref_id in (f"f{each:08d}" for each in range(number, posts, 10)):
            try:
                system.publish_now(FLOODER, ref_id)
            except TooOften:
                refused.append(ref_id)

    def flood(system: System) -> None:
        for number in range(10):
            system.scheduler.start(partial(client, system, number))

    return flood


@pytest.fixture(scope="module")
def alone() -> float:
    """The median without a flood."""
    return median(others_beside(nobody, System(CAPACITY)))


@pytest.mark.thorough
def test_a_flood_by_the_queue_leaves_the_others_what_they_have_alone(alone: float) -> None:
    # One world alone is chance: a byte more in each edge doubles its median, or halves it.
    systems = [System(CAPACITY, seed=seed) for seed in range(3)]
    times = chain.from_iterable(others_beside(by_queue(POSTS), system) for system in systems)
    assert median(times) < BOUND * alone
    ledger = stores(systems[0].untimed_dynamodb).ledger
    rows = [ledger.get(f"f{number:08d}") for number in range(POSTS)]
    lanes = [row.lane for row in rows if row]
    assert lanes.count("") == RATE.limit, "as many as the rate lets through at once"


@pytest.mark.thorough
def test_without_the_rate_a_flood_by_the_queue_delays_the_others(alone: float) -> None:
    """So that the test before shows something."""
    system = System(CAPACITY)
    system.publishing = replace(system.publishing, counts=None)
    assert median(others_beside(by_queue(POSTS), system)) > 5 * BOUND * alone


@pytest.mark.thorough
def test_refusals_over_http_do_not_delay_other_requests() -> None:
    keeps, refused = list[str](), list[str]()
    at_the_rate = others_beside(by_http(RATE.limit, keeps), System(CAPACITY))
    system = System(CAPACITY)
    beyond = others_beside(by_http(10 * RATE.limit, refused), system)
    assert keeps == []
    assert median(beyond) < 2 * median(at_the_rate)
    assert max(beyond) < 1.5 * max(at_the_rate)
    accepted = 10 * RATE.limit - len(refused)
    refilled = 1e9 * system.scheduler.now / RATE.interval_ns
    assert RATE.limit <= accepted <= RATE.limit + refilled + 1
    posts = stores(system.untimed_dynamodb).posts
    assert all(posts.one(each) is None for each in refused)


def test_a_table_writes_no_more_than_its_maximum_and_small_posts_get_through() -> None:
    most, followers = 500, 6_000
    system = System(most, replace(warm(CAPACITY), max_write_request_units=most))
    follow(system.database, "large", followers)

    def large(system: System) -> None:
        system.publish("large", "9057-large")

    times = others_beside(large, system)
    assert max(times) < 2, "seconds, though the large one takes 12"
    system.run_until_complete("9057-large")
    written = system.written("9057-large")
    assert len(written.users) == followers
    by_second: dict[int, int] = {}
    for posts in system.timelines.written.values():
        for tenth, puts in posts.by_time.items():
            by_second[tenth // 10] = by_second.get(tenth // 10, 0) + puts
    assert max(by_second.values()) <= 2 * most, "its second's burst, and its rate"
    assert written.last_at > (followers - most) / most * 0.9

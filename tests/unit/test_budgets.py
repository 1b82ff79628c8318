"""Budgets: no lane gets more than its share, and no worker idles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import budgets, names
from fanfold.aws.items import MAX_PUTS
from fanfold.budgets import Budget
from fanfold.fanout.plan import SEGMENT_FOLLOWERS, count_for
from fanfold.settings import Settings

capacities = st.integers(budgets.MIN_WRITE_CAPACITY, budgets.MAX_WRITE_CAPACITY)


@pytest.mark.parametrize(
    ("units", "express", "bulk", "relation"),
    [
        (4_000, (5, 1_000), (2, 1_700), 2),
        (20_000, (20, 5_000), (8, 2_125), 10),
        (40_000, (40, 10_000), (16, 2_125), 20),
        (150_000, (100, 37_500), (64, 1_992), 75),
        (1_000_000, (100, 250_000), (64, 13_281), 100),
    ],
)
def test_the_division_of_example_capacities(
    units: int, express: tuple[int, int], bulk: tuple[int, int], relation: int
) -> None:
    budget = Budget.of(units)
    assert (budget.express.max_concurrency, budget.express.worker_rate) == express
    assert (budget.bulk.max_concurrency, budget.bulk.worker_rate) == bulk
    assert budget.relation.max_concurrency == relation


@given(capacities)
def test_all_bulk_workers_together_use_85_percent(units: int) -> None:
    bulk = Budget.of(units).bulk
    assert 100 * bulk.most <= 85 * units
    # The remainder of the division is less than an entry per worker.
    assert bulk.most > bulk.rate - bulk.max_concurrency


@given(capacities, st.integers(1, 1_000))
def test_bulk_keeps_to_85_percent_with_any_number_of_workers(units: int, workers: int) -> None:
    try:
        bulk = Budget.of(units, bulk_workers=workers).bulk
    except ValueError:
        assert 85 * units < 100 * MAX_PUTS * workers
    else:
        assert bulk.max_concurrency == workers
        assert 100 * bulk.most <= 85 * units
        assert bulk.worker_rate >= MAX_PUTS


@given(capacities)
def test_segments_divide_evenly_among_the_bulk_workers(units: int) -> None:
    workers = Budget.of(units).bulk.max_concurrency
    assert 2 <= workers <= 64
    for segments in {count_for(followers) for followers in (5_001, 220_000, 10_000_000)}:
        assert segments % workers == 0 or workers % segments == 0


@given(st.integers(4_000, 150_000))
def test_a_segment_of_bulk_takes_a_few_seconds(units: int) -> None:
    assert 1.7 <= SEGMENT_FOLLOWERS / Budget.of(units).bulk.worker_rate <= 3.6


@given(capacities)
def test_relate_takes_at_most_10_percent_except_on_the_smallest_tables(units: int) -> None:
    relation = Budget.of(units).relation
    assert 10 * relation.most <= units or relation.max_concurrency == budgets.MIN_WORKERS
    if units >= 4_000:
        assert 10 * relation.most <= units


@given(st.integers(4_000, budgets.MAX_WRITE_CAPACITY))
def test_express_has_capacity_however_busy_the_others_are(units: int) -> None:
    budget = Budget.of(units)
    assert budget.left_for_express >= units // 20
    assert budget.left_for_express + budget.bulk.most + budget.relation.most == units


@given(capacities)
def test_express_workers_take_a_quarter_each_and_oversubscribe_together(units: int) -> None:
    express = Budget.of(units).express
    assert express.worker_rate == units // 4
    assert express.most >= units
    assert 5 <= express.max_concurrency <= 100


@given(capacities)
def test_every_worker_may_write_a_batch_a_second(units: int) -> None:
    budget = Budget.of(units)
    assert min(lane.worker_rate for lane in (budget.express, budget.bulk)) >= MAX_PUTS


@given(capacities, capacities)
def test_more_capacity_never_means_fewer_workers_or_a_lower_rate(one: int, other: int) -> None:
    less, more = Budget.of(min(one, other)), Budget.of(max(one, other))
    for small, large in (
        (less.express, more.express),
        (less.bulk, more.bulk),
        (less.relation, more.relation),
    ):
        assert small.rate <= large.rate
        assert small.max_concurrency <= large.max_concurrency


def test_given_numbers_of_workers_replace_the_defaults() -> None:
    budget = Budget.of(40_000, express_workers=7, bulk_workers=6, relation_workers=3)
    assert budget.express.max_concurrency == 7
    assert (budget.bulk.max_concurrency, budget.bulk.worker_rate) == (6, 5_666)
    assert budget.relation.max_concurrency == 3


def test_too_many_bulk_workers_are_refused_with_the_maximum() -> None:
    assert Budget.of(4_000, bulk_workers=136).bulk.worker_rate == 25
    with pytest.raises(ValueError, match="at most 136 workers, not 137: each of them needs 25"):
        Budget.of(4_000, bulk_workers=137)


@pytest.mark.parametrize("units", [-1, 0, 99, 10_000_001])
def test_a_capacity_out_of_bounds_is_refused_with_the_bounds(units: int) -> None:
    with pytest.raises(ValueError, match="from 100 to 10,000,000 units a second, not "):
        Budget.of(units)


def test_default_settings_have_the_budget_of_the_default_capacity() -> None:
    budget = Budget.of(budgets.DEFAULT_WRITE_CAPACITY)
    assert Settings.express_worker_rate == budget.express.worker_rate
    assert Settings.bulk_worker_rate == budget.bulk.worker_rate


def test_each_transport_has_its_memory() -> None:
    assert set(budgets.DELIVER_MEMORY_MB) == set(names.TRANSPORTS)
    assert Settings.transport in names.TRANSPORTS
    assert budgets.DELIVER_MEMORY_MB == {"libcurl": 512, "boto3": 1769}

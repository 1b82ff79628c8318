"""Budgets: no lane gets more than its share, and no worker idles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import budgets
from fanfold.aws.items import MAX_PUTS
from fanfold.budgets import Budget
from fanfold.fanout.segment_size import SEGMENT_FOLLOWERS, count_for
from fanfold.settings import Settings

capacities = st.integers(budgets.MIN_WRITE_CAPACITY, budgets.MAX_WRITE_CAPACITY)


@given(capacities, st.none() | st.integers(1, 1_000))
def test_bulk_keeps_to_85_percent_with_any_number_of_workers(
    units: int, workers: int | None
) -> None:
    try:
        bulk = Budget.of(units, bulk_workers=workers).bulk
    except ValueError:
        assert workers
        assert 85 * units < 100 * MAX_PUTS * workers
    else:
        assert bulk.max_concurrency == (workers or bulk.max_concurrency)
        assert 100 * bulk.most <= 85 * units
        # The remainder of the division is less than an entry per worker.
        assert bulk.most > bulk.rate - bulk.max_concurrency
        assert bulk.worker_rate >= MAX_PUTS


@given(capacities)
def test_segments_divide_evenly_among_the_bulk_workers(units: int) -> None:
    workers = Budget.of(units).bulk.max_concurrency
    assert 2 <= workers <= 64
    for segments in {count_for(followers) for followers in (5_001, 220_000, 10_000_000)}:
        assert segments % workers == 0 or workers % segments == 0


@given(st.integers(4_000, budgets.MAX_WRITE_CAPACITY))
def test_express_has_capacity_however_busy_the_others_are(units: int) -> None:
    budget = Budget.of(units)
    assert budget.left_for_express >= units // 20
    assert budget.left_for_express + budget.bulk.most + budget.relation.most == units
    assert 1.7 <= SEGMENT_FOLLOWERS / budget.bulk.worker_rate <= 3.6 or units > 150_000


@given(capacities)
def test_express_workers_take_a_quarter_each_and_bursts_are_short(units: int) -> None:
    budget = Budget.of(units)
    assert budget.express.worker_rate == units // 4
    assert budget.express.most >= units, "together they oversubscribe"
    assert 5 <= budget.express.max_concurrency <= 100
    burst = budget.express_burst
    assert burst == 250 or (20 * burst <= units and 250 < burst <= 2_000)
    assert MAX_PUTS <= budget.publish_burst <= 1_000
    at_once = budget.publish.max_concurrency * budget.publish_burst
    assert 4 * at_once <= units or budget.publish_burst == MAX_PUTS


@given(capacities)
def test_throttled_workers_of_a_lane_together_send_no_more_than_a_new_table_takes(
    units: int,
) -> None:
    budget = Budget.of(units)
    for lane in (budget.publish, budget.express, budget.bulk):
        assert MAX_PUTS <= lane.slowest_rate <= lane.worker_rate
        together = lane.max_concurrency * lane.slowest_rate
        is_least = lane.slowest_rate == MAX_PUTS  # a batch a second
        assert is_least or together <= min(units // 8, budgets.MIN_WARM_WRITE_UNITS)


@given(capacities, st.none() | st.integers(2, 1_000))
def test_relate_keeps_to_10_percent_or_a_batch_a_second_for_each_worker(
    units: int, workers: int | None
) -> None:
    relation = Budget.of(units, relation_workers=workers).relation
    assert relation.worker_rate >= MAX_PUTS
    assert relation.most <= max(units // 10, MAX_PUTS * (workers or budgets.MIN_WORKERS))


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
    for name in ("publish", "express", "bulk"):
        lane = getattr(budget, name)
        assert getattr(Settings, f"{name}_worker_rate") == lane.worker_rate
        assert getattr(Settings, f"{name}_slowest_rate") == lane.slowest_rate
    assert Settings.publish_burst == budget.publish_burst
    assert Settings.express_burst == budget.express_burst
    assert Settings.relation_worker_rate == budget.relation.worker_rate


# What an account may run at once


def workers(budget: Budget) -> tuple[int, ...]:
    """Of publish, express, bulk and relation."""
    lanes = (budget.express, budget.bulk, budget.relation)
    return budget.publish.max_concurrency, *(lane.max_concurrency for lane in lanes)


@pytest.mark.parametrize(
    ("concurrency", "expected"),
    [
        (10, (2, 2, 2, 2)),
        (50, (5, 17, 4, 9)),
        (107, (9, 39, 8, 19)),
        (108, (10, 40, 16, 20)),
        (1_000, (10, 40, 16, 20)),
    ],
)
def test_an_account_with_few_executions_has_fewer_workers(
    concurrency: int, expected: tuple[int, ...]
) -> None:
    assert workers(Budget.of(40_000, concurrency=concurrency)) == expected


some = st.none() | st.integers(2, 60)


@given(capacities, st.integers(10, 1_200), some, some, some, some)
def test_a_fifth_of_the_executions_is_left_to_requests_and_sweep(
    units: int,
    concurrency: int,
    publish: int | None,
    express: int | None,
    bulk: int | None,
    relation: int | None,
) -> None:
    given_ = (publish, express, bulk, relation)
    room = concurrency - -(-concurrency // 5)
    try:
        budget = Budget.of(
            units,
            concurrency=concurrency,
            publish_workers=publish,
            express_workers=express,
            bulk_workers=bulk,
            relation_workers=relation,
        )
    except budgets.NoRoom:
        assert sum(each or 2 for each in given_) > room
        return
    except ValueError:
        assert bulk is not None
        return
    assert sum(workers(budget)) == budget.all_workers <= room
    wanted = workers(Budget.of(units))
    for number, asked, most in zip(workers(budget), given_, wanted, strict=True):
        assert number == asked if asked else 2 <= number <= most
    if bulk is None:
        assert budget.bulk.max_concurrency.bit_count() == 1


def test_workers_beyond_the_account_are_refused_with_the_numbers() -> None:
    with pytest.raises(
        budgets.NoRoom,
        match=r"at least 46 workers at once \(publish 2, express 40, bulk 2, relation 2\).*"
        r"Of 20 concurrent executions 16 are theirs",
    ):
        Budget.of(40_000, concurrency=20, express_workers=40)

"""How many cases a door gets: 60 in `make test`, 200 in `make check`, 10,000 in `make verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW, MANY = 2 * settings().max_examples, 10_000
# Of each route: all eighteen together have 36,000.
FEW_OF_A_ROUTE, MANY_OF_A_ROUTE = FEW // 5, 2_000
# Of each queue, several messages a batch.
FEW_BATCHES, MANY_BATCHES = FEW // 5, 1_000

Case = TypeVar("Case")


def _cases(few: int, many: int) -> pytest.MarkDecorator:
    some = pytest.param(few, marks=pytest.mark.hypothesis)
    return pytest.mark.parametrize("cases", [some, pytest.param(many, marks=pytest.mark.slow)])


few_or_many = _cases(FEW, MANY)
few_or_many_of_a_route = _cases(FEW_OF_A_ROUTE, MANY_OF_A_ROUTE)
few_or_many_batches = _cases(FEW_BATCHES, MANY_BATCHES)


def every(cases: int, of: st.SearchStrategy[Case], check: Callable[[Case], None]) -> None:
    """Check so many cases; the smallest that fails is shown. Many are new ones in every run."""

    @settings(
        max_examples=cases,
        derandomize=cases in (FEW, FEW_OF_A_ROUTE, FEW_BATCHES),
        suppress_health_check=list(HealthCheck),
    )
    @given(of)
    def run(case: Case) -> None:
        check(case)

    run()

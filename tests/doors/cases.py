"""How many cases a door gets: some in `make check`, ten thousand in `make verify`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

FEW, MANY = 200, 10_000
# Of each route, and of whole batches: together they are many more.
SMALL_FEW = 40

Case = TypeVar("Case")

few_or_many = pytest.mark.parametrize("cases", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
few_or_many_small = pytest.mark.parametrize(
    "cases", [SMALL_FEW, pytest.param(MANY, marks=pytest.mark.slow)]
)


def every(cases: int, of: st.SearchStrategy[Case], check: Callable[[Case], None]) -> None:
    """Check so many cases; the smallest that fails is shown."""

    @settings(max_examples=cases, suppress_health_check=list(HealthCheck))
    @given(of)
    def run(case: Case) -> None:
        check(case)

    run()

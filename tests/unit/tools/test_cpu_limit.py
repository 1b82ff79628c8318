"""`make test CPU_SECONDS=...` fails if the tests use more, on a machine of usual speed."""

import sys

import pytest

from tools import cpu_limit
from tools.cpu_limit import USUAL_SECONDS, allowed


@pytest.mark.parametrize(
    ("slowness", "most"),
    [
        pytest.param([], 100.0, id="it has ended before a loop"),
        pytest.param([3.0, 2.0], 200.0, id="a slow machine gets more"),
        pytest.param([0.5, 0.5], 100.0, id="a fast machine gets no less"),
        pytest.param([3.0, 0.5, 1.0], 150.0, id="a fast moment makes up for no slow one"),
    ],
)
def test_a_command_may_use_more_where_a_loop_takes_longer(
    slowness: list[float], most: float
) -> None:
    assert allowed(100.0, [each * USUAL_SECONDS for each in slowness]) == pytest.approx(most)


@pytest.mark.parametrize(
    ("limit", "code", "status"), [("1e9", "0", 0), ("0", "0", 1), ("1e9", "3", 3), ("0", "3", 3)]
)
def test_it_fails_as_its_command_or_if_that_used_too_much(
    limit: str, code: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_limit, "sleep", lambda _seconds: None)
    monkeypatch.setattr(
        sys, "argv", ["", limit, sys.executable, "-Sc", f"raise SystemExit({code})"]
    )
    assert cpu_limit.main() == status

"""What is deployed changes only with its record, so that a review sees every change."""

import json

import pytest

from tests.infra.recorded import RECORDED, STAGES, recorded


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_is_as_it_is_recorded(stage: str) -> None:
    written = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert written[stage] == recorded()[stage], (
        "If this is meant: python -m tests.infra.recorded, and commit what it has written"
    )

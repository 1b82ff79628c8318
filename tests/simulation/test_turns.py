"""Which orders of a batch RELATE carries out one after another."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Iterator
from types import ModuleType
from unittest.mock import patch

import pytest

from fanfold.messages import BackfillRelation, Command, ReconcileRelation
from simulation.function_modules import imported_anew
from simulation.lambdas import settings


@pytest.fixture
def relate() -> Iterator[ModuleType]:
    env = {**settings().to_env(), "POWERTOOLS_SERVICE_NAME": "relate", "AWS_REGION": "eu-central-1"}
    with patch.dict(os.environ, env), imported_anew():
        yield importlib.import_module("functions.relate")


def turn(relate: ModuleType, order: Command) -> str | None:
    found: str | None = relate._turn(json.dumps(order.message(group="ada").content))
    return found


def test_orders_to_backfill_one_timeline_wait_for_each_other_and_for_no_other(
    relate: ModuleType,
) -> None:
    ada, bea, others = (
        turn(relate, BackfillRelation(user_id=user, publisher_id=publisher))
        for user, publisher in (("bob", "ada"), ("bob", "bea"), ("cem", "ada"))
    )
    assert ada == bea != others


def test_orders_to_reconcile_follows_of_one_user_do_not_wait_for_each_other(
    relate: ModuleType,
) -> None:
    ada, bea = (
        turn(relate, ReconcileRelation(user_id="bob", publisher_id=publisher))
        for publisher in ("ada", "bea")
    )
    assert ada != bea

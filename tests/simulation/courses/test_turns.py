"""Which orders of a batch RELATE carries out one after another."""

from __future__ import annotations

import importlib
import os
from unittest.mock import patch

from fanfold.messages import BackfillRelation, ReconcileRelation
from proof.simulation.world.function_modules import imported_anew
from proof.simulation.world.lambdas import settings


def test_orders_to_backfill_one_timeline_wait_for_each_other_and_for_no_other() -> None:
    env = {**settings().to_env(), "POWERTOOLS_SERVICE_NAME": "relate", "AWS_REGION": "eu-central-1"}
    with patch.dict(os.environ, env), imported_anew():
        relate = importlib.import_module("functions.relate")
        turns = [
            relate._turn(order)
            for order in (
                BackfillRelation(user_id="bob", publisher_id="ada"),
                BackfillRelation(user_id="bob", publisher_id="bea"),
                BackfillRelation(user_id="cem", publisher_id="ada"),
                ReconcileRelation(user_id="bob", publisher_id="ada"),
                ReconcileRelation(user_id="bob", publisher_id="bea"),
            )
        ]
    assert turns[0] == turns[1]
    assert len(set(turns)) == len(turns) - 1

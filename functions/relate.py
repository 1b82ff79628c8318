"""RELATE: reconciles a follow once more, after the function that changed it has stopped.

The orders of a batch are carried out concurrently. In a crowd those for its publisher wait for
throttled edges, and one after the other they would leave no time for the rest of the batch.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import names
from fanfold.aws import boto
from fanfold.errors import BadInput
from fanfold.messages import ReconcileRelation, parse
from fanfold.settings import Settings
from functions import _wiring
from functions._worker import Received, logger, sources, work

settings = Settings.from_env()
dynamodb, sqs = boto.dynamodb(), boto.sqs()
following = _wiring.following(settings, names.API, _wiring.edges(settings), dynamodb, sqs)
SOURCES = sources(settings, sqs, names.RELATION)
ORDERS = boto.threads(names.RELATION.batch_size)


def take(received: Received) -> None:
    command = ReconcileRelation.from_content(parse(received.body))
    following.reconcile(command.user_id, command.publisher_id)


def _pair(body: str) -> str | None:
    """The user and the publisher of an order: one reconciling serves all orders before it."""
    try:
        command = ReconcileRelation.from_content(parse(body))
    except BadInput:
        return None
    return f"{command.user_id}#{command.publisher_id}"


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return work(event, context, take, sources=SOURCES, threads=ORDERS, in_turn=_pair, once=True)

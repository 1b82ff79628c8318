"""The door of the relation queue (RELATE): settle once more what a door has settled."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import names
from fanfold.aws import boto
from fanfold.messages import ReconcileRelation, parse
from fanfold.settings import Settings
from functions import _wiring
from functions._worker import Received, logger, sources, work

settings = Settings.from_env()
dynamodb, sqs = boto.dynamodb(), boto.sqs()
following = _wiring.following(settings, names.API, _wiring.edges(settings), dynamodb, sqs)
SOURCES = sources(settings, sqs, names.RELATION)


def take(received: Received) -> None:
    """Settle one relation."""
    order = ReconcileRelation.from_content(parse(received.body))
    following.reconcile(order.user_id, order.publisher_id)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    """Take one batch of the relation queue."""
    return work(event, context, take, sources=SOURCES)

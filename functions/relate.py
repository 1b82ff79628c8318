"""RELATE: reconciles a follow once more, after the function that changed it has stopped."""

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
    command = ReconcileRelation.from_content(parse(received.body))
    following.reconcile(command.user_id, command.publisher_id)


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return work(event, context, take, sources=SOURCES)

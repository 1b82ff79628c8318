"""RELATE: reconciles a follow after the function that changed it has stopped, and backfills it.

A batch's commands are carried out concurrently. In a rush of follows, those of its publisher wait
for throttled edges; one after the other, they would leave no time for the rest of the batch.
"""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import contract, names
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from fanfold.fanout.pacing import Pace
from fanfold.follows.follow import Following
from fanfold.messages import BackfillRelation, ReconcileRelation, parse
from fanfold.settings import Settings
from fanfold.stores import Stores
from functions import _clients, _wiring
from functions._worker import Received, logger, queue_name, sources, work

# Time for the last call of a backfill to end.
STOP_SECONDS = CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
heads = _wiring.known_head(stores)
following = Following.of(settings, names.API, stores.follows(heads), _wiring.edges(settings), sqs)
backfilling = _wiring.backfilling(stores, heads)
SOURCES = sources(settings, sqs, names.RELATION)
COMMANDS = _clients.threads(names.RELATION.batch_size)
# Kept between invocations. Without a burst: many workers begin at once, and must keep to their
# share together.
PACES = {
    queue_name(settings.relation_queue_url): Pace(settings.relation_worker_rate, burst=MAX_PUTS)
}


def take(received: Received[BackfillRelation | ReconcileRelation]) -> None:
    command = received.message
    user_id, publisher_id = command.user_id, command.publisher_id
    sent_at, pace = received.first_sent_at, PACES[received.queue]
    stop_at = received.stop_at - STOP_SECONDS
    if isinstance(command, ReconcileRelation):
        relation, _ = following.settle(user_id, publisher_id)
        backfilling.second(relation, sent_at=sent_at, pace=pace, stop_at=stop_at)
    else:
        relation = following.follows.get(user_id, publisher_id)
        backfilling.first(
            relation, sent_at=sent_at, redelivered=received.redelivered, pace=pace, stop_at=stop_at
        )


def _read(body: str) -> BackfillRelation | ReconcileRelation:
    content = parse(body)
    if content.get("type") == contract.RELATION_BACKFILL:
        return BackfillRelation.from_content(content)
    return ReconcileRelation.from_content(content)


def _turn(command: BackfillRelation | ReconcileRelation) -> str:
    """What commands of a batch contend for: backfills write to one user's timeline."""
    return command.user_id if isinstance(command, BackfillRelation) else _command(command)


def _command(command: BackfillRelation | ReconcileRelation) -> str:
    """What a command asks for: carrying it out once serves all copies before it."""
    return f"{command.type}#{command.user_id}#{command.publisher_id}"


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return work(
        event, context, _read, take, sources=SOURCES, threads=COMMANDS, in_turn=_turn, once=_command
    )

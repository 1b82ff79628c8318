"""RELATE: reconciles a follow after the function that changed it has stopped, and backfills it.

It also opens the requests that wait for a publisher who went public.

A batch's commands are carried out concurrently. In a rush of follows, those of its publisher wait
for throttled edges; one after the other, they would leave no time for the rest of the batch.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import names
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from fanfold.fanout.pacing import Pace
from fanfold.follows.follow import Following
from fanfold.follows.publisher.audience import Audience
from fanfold.messages import BackfillRelation, OpenRequests, ReconcileRelation, parse
from fanfold.settings import Settings
from fanfold.stores import Stores
from functions import _clients, _wiring
from functions._worker import Received, logger, queue_name, sources, work

# Time for the last call of a backfill to end.
STOP_SECONDS = CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
heads = _wiring.known_head(stores)
follows, edges = stores.follows(heads), _wiring.edges(settings)
relations = settings, names.RELATE, follows, edges, stores.privacies, sqs
following, audience = Following.of(*relations), Audience.of(*relations)
backfilling = _wiring.backfilling(stores, heads)
SOURCES = sources(settings, sqs, names.RELATION)
COMMANDS = _clients.threads(names.RELATION.batch_size)
# Kept between invocations. Without a burst: many workers begin at once, and must keep to their
# share together.
PACES = {
    queue_name(settings.relation_queue_url): Pace(settings.relation_worker_rate, burst=MAX_PUTS)
}


RelateCommand = BackfillRelation | ReconcileRelation | OpenRequests
KINDS: dict[Any, type[RelateCommand]] = {
    each.type: each for each in (BackfillRelation, ReconcileRelation, OpenRequests)
}


def take(received: Received[RelateCommand]) -> None:
    command, stop_at = received.message, received.stop_at - STOP_SECONDS
    if isinstance(command, OpenRequests):
        audience.open_all(command.publisher_id, command.after, stop_at=stop_at)
        return
    user_id, publisher_id = command.user_id, command.publisher_id
    sent_at, pace = received.first_sent_at, PACES[received.queue]
    if isinstance(command, ReconcileRelation):
        relation, _ = following.settle(user_id, publisher_id)
        backfilling.second(relation, sent_at=sent_at, pace=pace, stop_at=stop_at)
    else:
        relation = following.follows.get(user_id, publisher_id)
        backfilling.first(
            relation, sent_at=sent_at, redelivered=received.redelivered, pace=pace, stop_at=stop_at
        )


def _read(body: str) -> RelateCommand:
    content = parse(body)
    # A type that is no text is refused there.
    return KINDS.get(str(content.get("type")), ReconcileRelation).from_content(content)


def _turn(command: RelateCommand) -> str:
    """What commands of a batch contend for: backfills write to one user's timeline."""
    return command.user_id if isinstance(command, BackfillRelation) else _command(command)


def _command(command: RelateCommand) -> str:
    """What a command asks for: carrying it out once serves all copies before it."""
    return "#".join((command.type, *asdict(command).values()))


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return work(
        event, context, _read, take, sources=SOURCES, threads=COMMANDS, in_turn=_turn, once=_command
    )

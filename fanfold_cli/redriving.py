"""Move dead letters back to the queue that they came from.

SQS does so itself (StartMessageMoveTask), but only for all messages of a queue. Where some must
stay because their post has expired, or where SQS lacks that operation, this module receives each
message, sends it, and only then deletes it.
"""

import time
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from fanfold import clock, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli.console import ExpectedError, counted, say
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.stack import Deployment

# The highest rate of a move task.
MAX_RATE = 500
POLL_SECONDS = 1.0
# More than a page takes to send and delete; after an interruption the messages reappear then.
HIDDEN_SECONDS = 60
# The error codes by which SQS and engines reject an unknown operation.
UNKNOWN_OPERATION = frozenset(
    {
        "InvalidAction",
        "UnknownOperationException",
        "UnknownOperation",
        "NotImplemented",
        "AWS.SimpleQueueService.UnsupportedOperation",
    }
)
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


@dataclass(frozen=True)
class Redriven:
    queue: str
    moved: int = 0
    skipped: int = 0  # expired posts, which stay in the dead-letter queue
    how: str = "loop"  # or "task": moved by SQS itself


def redrive(
    deployment: Deployment, queue: names.Queue, *, rate: int | None, retention_days: int
) -> Redriven:
    """Move the messages that are in the dead-letter queue now; later ones stay."""
    name = queue.name.lower()
    sqs = deployment.client("sqs")
    dead = DeadLetterQueue(sqs, deployment.output(queue.dlq_url_output))
    count = dead.count()
    if count == 0:
        return Redriven(name)
    with progress_bar(f"Moving {name}", total=count, unit="messages") as bar:
        # Only messages of the publish queue can have expired, and a task moves those as well.
        if queue != names.PUBLISH:
            moved = _by_task(deployment, queue, rate=rate, bar=bar)
            if moved is not None:
                return Redriven(name, moved, how="task")
        destination = deployment.output(queue.url_output)
        moved, skipped = _by_loop(
            dead, sqs, destination, count=count, rate=rate, retention_days=retention_days, bar=bar
        )
    return Redriven(name, moved, skipped)


def _by_task(
    deployment: Deployment, queue: names.Queue, *, rate: int | None, bar: Bar
) -> int | None:
    """Return how many messages SQS moved, or None if it does not know move tasks."""
    sqs = deployment.client("sqs")
    source = deployment.queue_arn(queue.dlq_url_output)
    request: dict[str, Any] = {
        "SourceArn": source,
        # Without it SQS would fail on messages that a worker sent: those have no source queue.
        "DestinationArn": deployment.queue_arn(queue.url_output),
    }
    if rate is not None:
        request["MaxNumberOfMessagesPerSecond"] = rate
    try:
        sqs.start_message_move_task(**request)
    except ClientError as error:
        if _is_unknown(error):
            return None
        raise
    while True:
        (task,) = sqs.list_message_move_tasks(SourceArn=source, MaxResults=1)["Results"]
        moved = int(task.get("ApproximateNumberOfMessagesMoved", 0))
        bar.reach(moved, total=task.get("ApproximateNumberOfMessagesToMove"))
        if task["Status"] in ENDED:
            break
        time.sleep(POLL_SECONDS)
    if task["Status"] != "COMPLETED":
        raise ExpectedError(
            f"SQS stopped after {counted(moved, 'message')} of {queue.name.lower()}: "
            f"{task['Status']} {task.get('FailureReason', '')}. The others are still in the "
            "dead-letter queue; run the command again."
        )
    return moved


def _is_unknown(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return error.response.get("Error", {}).get("Code") in UNKNOWN_OPERATION or status == 501


def _by_loop(
    dead: DeadLetterQueue,
    sqs: Any,
    destination: str,
    *,
    count: int,
    rate: int | None,
    retention_days: int,
    bar: Bar,
) -> tuple[int, int]:
    """Move `count` messages at most; return how many were moved, and how many had expired.

    Without that limit, messages that keep failing would be moved in circles. An interruption can
    leave a message in both queues; every worker tolerates duplicates.
    """
    moved, skipped = 0, dict[str, DeadLetter]()
    held: list[DeadLetter] = []
    began = time.monotonic()
    try:
        while moved + len(skipped) < count:
            held = dead.receive(
                hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS
            )
            if not held:
                break
            while held and moved + len(skipped) < count:
                message = held[0]
                if message.is_expired(now=clock.now_ms(), retention_days=retention_days):
                    if message.message_id not in skipped:
                        say(f"Message {message.message_id} publishes an expired post, so it stays.")
                    skipped[message.message_id] = message
                else:
                    if rate is not None:
                        time.sleep(max(0.0, began + moved / rate - time.monotonic()))
                    fair = {"MessageGroupId": message.group} if message.group else {}
                    sqs.send_message(QueueUrl=destination, MessageBody=message.body, **fair)
                    dead.delete(message)
                    moved += 1
                    bar.reach(moved + len(skipped))
                held.pop(0)
    finally:
        dead.release([*held, *skipped.values()])
    return moved, len(skipped)

"""Message move tasks: SQS itself moves all messages of a dead-letter queue to another queue."""

import time
from typing import Any

from botocore.exceptions import ClientError

from fanfold import names
from fanfold_cli.console import ExpectedError, counted
from fanfold_cli.progress import Bar
from fanfold_cli.stack import Deployment

# The highest rate of a task.
MAX_RATE = 500
POLL_SECONDS = 1.0
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


def move(deployment: Deployment, queue: names.Queue, *, rate: int | None, bar: Bar) -> int | None:
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
        (task,) = _latest(sqs, source)
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


def refuse_while_running(deployment: Deployment, queue: names.Queue) -> None:
    """Raise `ExpectedError` if SQS is moving this queue's dead letters: both would take them."""
    source = deployment.queue_arn(queue.dlq_url_output)
    try:
        tasks = _latest(deployment.client("sqs"), source)
    except ClientError as error:
        if _is_unknown(error):
            return
        raise
    if any(task["Status"] not in ENDED for task in tasks):
        raise ExpectedError(
            f"SQS is moving the dead letters of {queue.name.lower()} right now (a message move "
            "task), so this command left them alone. Wait until it has ended, or cancel it in the "
            "console of SQS; then run the command again."
        )


def _latest(sqs: Any, source: str) -> list[dict[str, Any]]:
    """The newest task of the queue, if it ever had one. Only one runs at a time."""
    tasks: list[dict[str, Any]] = sqs.list_message_move_tasks(SourceArn=source, MaxResults=1)[
        "Results"
    ]
    return tasks


def _is_unknown(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return error.response.get("Error", {}).get("Code") in UNKNOWN_OPERATION or status == 501

"""Message move tasks: SQS itself moves all messages of a dead-letter queue."""

import time
from collections.abc import Callable
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, say

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
# In place of an unknown handle in a command: `list-message-move-tasks` prints it.
HANDLE = "HANDLE"
ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED"})


def move(
    deployment: Deployment,
    queue: names.Queue,
    *,
    rate: int | None,
    reach: Callable[[int, int | None], None],
) -> bool:
    """Let SQS move all messages; call `reach` with the moved messages and the total.

    False if SQS does not know move tasks.
    """
    sqs = deployment.client("sqs")
    source = deployment.queue_arn(queue.dlq_url_output)
    request: dict[str, Any] = {
        "SourceArn": source,
        # Needed for messages that a worker sent to the queue: they have no source queue.
        "DestinationArn": deployment.queue_arn(queue.url_output),
    }
    if rate is not None:
        request["MaxNumberOfMessagesPerSecond"] = rate
    try:
        sqs.start_message_move_task(**request)
    except ClientError as error:
        if _is_unknown(error):
            return False
        raise
    except KeyboardInterrupt:
        _cancel(deployment, queue, source, reach)  # it may have begun
        raise
    try:
        while True:
            (task,) = _latest(sqs, source)
            moved = int(task.get("ApproximateNumberOfMessagesMoved", 0))
            reach(moved, task.get("ApproximateNumberOfMessagesToMove"))
            if task["Status"] in ENDED:
                break
            time.sleep(POLL_SECONDS)
    except KeyboardInterrupt:
        _cancel(deployment, queue, source, reach)
        raise
    except (ClientError, BotoCoreError):
        say(_goes_on(deployment, queue, HANDLE))
        raise
    if task["Status"] != "COMPLETED":
        raise ExpectedError(
            f"SQS stopped after {counted(moved, 'message')} of {queue.lane}: "
            f"{task['Status']} {task.get('FailureReason', '')}. The others are still in the "
            "dead-letter queue; run the command again."
        )
    return True


def refuse_while_running(deployment: Deployment, queue: names.Queue) -> None:
    """Raise `ExpectedError` if SQS is moving this queue's dead letters at the moment."""
    source = deployment.queue_arn(queue.dlq_url_output)
    try:
        tasks = _latest(deployment.client("sqs"), source)
    except ClientError as error:
        if _is_unknown(error):
            return
        raise
    if any(task["Status"] not in ENDED for task in tasks):
        handle = tasks[0].get("TaskHandle", HANDLE)
        raise ExpectedError(
            f"SQS is moving the dead letters of {queue.lane} right now (a message move "
            "task), so this command left them alone. Wait until it has ended, or cancel it "
            f"({_cancelling(deployment, handle)}); then run the command again."
        )


def _cancel(
    deployment: Deployment, queue: names.Queue, source: str, reach: Callable[[int, None], None]
) -> None:
    """Cancel the task, if there is one; or say that it may go on, and how to cancel it."""
    sqs, name, handle = deployment.client("sqs"), queue.lane, HANDLE
    try:
        running = [task for task in _latest(sqs, source) if task["Status"] not in ENDED]
        if not running:
            return
        handle = running[0].get("TaskHandle", HANDLE)
        answer = sqs.cancel_message_move_task(TaskHandle=handle)
    except (ClientError, BotoCoreError, KeyboardInterrupt) as error:
        say(f"{_goes_on(deployment, queue, handle)} {error}".rstrip())
        return
    moved = int(answer.get("ApproximateNumberOfMessagesMoved", 0))
    reach(moved, None)
    say(f"SQS was told to stop; it has moved about {counted(moved, 'message')} of {name}.")


def _goes_on(deployment: Deployment, queue: names.Queue, handle: str) -> str:
    return (
        f"SQS may go on moving the dead letters of {queue.lane} by itself. To end that: "
        f"{_cancelling(deployment, handle)}."
    )


def _cancelling(deployment: Deployment, handle: str) -> str:
    return f"`aws sqs cancel-message-move-task --region {deployment.region} --task-handle {handle}`"


def _latest(sqs: Any, source: str) -> list[dict[str, Any]]:
    """The newest task of the queue, if it ever had one. Only one runs at a time."""
    answer: dict[str, Any] = sqs.list_message_move_tasks(SourceArn=source, MaxResults=1)
    return list(answer["Results"])


def _is_unknown(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return error.response.get("Error", {}).get("Code") in UNKNOWN_OPERATION or status == 501

"""Move dead letters back to the queue that they belong to.

SQS does it by itself where every letter may go back. Where some may not, because what they publish
is past its time, or where SQS has no such operation, each letter is received, sent and only then
deleted.
"""

import time
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from fanfold import clock, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli.console import ExpectedError, say
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.stack import Deployment

# SQS moves no faster.
MAX_RATE = 500
POLL_SECONDS = 1.0
# A page of letters is sent and deleted long before; what an interrupted run leaves shows again.
HIDDEN_SECONDS = 60
# How SQS and engines say that they do not know an operation.
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
    """What came of one dead-letter queue."""

    queue: str
    moved: int = 0
    skipped: int = 0  # posts past their time to live, which stay where they are
    how: str = "loop"  # or task: by SQS itself


def redrive(
    deployment: Deployment, queue: names.Queue, *, rate: int | None, retention_days: int
) -> Redriven:
    """Move the letters that are in the dead-letter queue now; later ones are left alone."""
    sqs = deployment.client("sqs")
    dead = DeadLetterQueue(sqs, deployment.output(queue.dlq_url_output))
    count = dead.count()
    if count == 0:
        return Redriven(queue.name.lower())
    with progress_bar(f"Moving {queue.name.lower()}", total=count, unit="messages") as bar:
        # Only what publishes can be past its time, and a task cannot choose.
        if queue != names.PUBLISH:
            moved = _by_task(deployment, queue, rate=rate, bar=bar)
            if moved is not None:
                return Redriven(queue.name.lower(), moved, how="task")
        destination = deployment.output(queue.url_output)
        loop = _Loop(dead, sqs, destination, count, rate, retention_days, bar)
        loop.run()
    return Redriven(queue.name.lower(), loop.moved, len(loop.skipped))


def _by_task(
    deployment: Deployment, queue: names.Queue, *, rate: int | None, bar: Bar
) -> int | None:
    """Let SQS move them; how many it moved, or None where it knows no such task."""
    sqs = deployment.client("sqs")
    source = deployment.queue_arn(queue.dlq_url_output)
    request: dict[str, Any] = {
        "SourceArn": source,
        # Always named: what a worker sent here itself has no source that SQS knows of.
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
            f"SQS stopped after {moved} messages of {queue.name.lower()}: {task['Status']} "
            f"{task.get('FailureReason', '')}. The rest is where it was; run it again."
        )
    return moved


def _is_unknown(error: ClientError) -> bool:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return error.response.get("Error", {}).get("Code") in UNKNOWN_OPERATION or status == 501


@dataclass
class _Loop:
    """Receives, sends, and deletes what SQS has confirmed to be sent.

    In doubt a message is there twice, which every worker allows for.
    """

    dead: DeadLetterQueue
    sqs: Any
    destination: str
    count: int
    rate: int | None
    retention_days: int
    bar: Bar
    moved: int = 0
    skipped: dict[str, DeadLetter] = field(default_factory=dict)
    began: float = 0.0

    def run(self) -> None:
        """Move as many as there were at the start: one that fails again is not moved in circles."""
        self.began = time.monotonic()
        held: list[DeadLetter] = []
        try:
            while self.moved + len(self.skipped) < self.count:
                held = self.dead.take(
                    hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS
                )
                if not held:
                    return
                while held and self.moved + len(self.skipped) < self.count:
                    self._one(held[0])
                    held.pop(0)
        finally:
            self.dead.show_again([*held, *self.skipped.values()])

    def _one(self, letter: DeadLetter) -> None:
        if letter.is_expired(now=clock.now_ms(), retention_days=self.retention_days):
            if letter.message_id not in self.skipped:
                say(f"Message {letter.message_id} publishes a post past its time: it stays.")
            self.skipped[letter.message_id] = letter
            return
        self._keep_to_the_rate()
        fair = {"MessageGroupId": letter.group} if letter.group else {}
        self.sqs.send_message(QueueUrl=self.destination, MessageBody=letter.body, **fair)
        self.dead.delete(letter)
        self.moved += 1
        self.bar.reach(self.moved + len(self.skipped))

    def _keep_to_the_rate(self) -> None:
        if self.rate is not None:
            due = self.began + self.moved / self.rate
            time.sleep(max(0.0, due - time.monotonic()))

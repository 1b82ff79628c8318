"""What invokes functions in a run: the event source mappings of queues, and SWEEP's schedule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from aws_model.lambda_events import sqs_event
from fanfold import names
from simulation.lambdas import lambdas, queue_url
from simulation.neighbours import is_message_of_neighbours
from simulation.scheduler import Crash

if TYPE_CHECKING:
    from simulation.world import World

SWEEP_EVERY_SECONDS = 60.0
# The share of minutes in which EventBridge starts SWEEP twice.
TWO_SWEEPS = 0.1
MAX_WORKERS = 3  # of one queue at a time


class Triggers:
    """The triggers of one run: a source of work for its scheduler, and Lambda's API of mappings."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.paused: set[str] = set()  # queues, whose names are also the ids of their mappings
        self.was_paused = False
        self.seconds_a_message = 0.0  # of a lane
        self._opens = dict.fromkeys(names.QUEUES, 0.0)  # in seconds of the scheduler
        self._random = Random(f"{world.seed} sweeps")
        self._busy = dict.fromkeys(names.QUEUES, 0)
        # Looked up once, because they are polled before every turn.
        self._queues = {queue: world.queues.queue(queue_url(queue)) for queue in names.QUEUES}
        world.scheduler.at(SWEEP_EVERY_SECONDS, self._start_sweep)

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803 - AWS's name
        return {"UUID": UUID, "State": "Disabled" if UUID in self.paused else "Enabled"}

    def pause(self, queues: set[str]) -> None:
        self.paused |= queues
        self.was_paused = True

    def resume(self) -> None:
        self.paused.clear()

    def is_idle(self) -> bool:
        """Whether no worker runs and no queue holds a message."""
        has_messages = any(
            not is_message_of_neighbours(message.body)
            for queue in self._queues.values()
            for message in queue.messages()
        )
        return not any(self._busy.values()) and not has_messages

    def ready(self) -> Sequence[Any]:
        """A way to go on for each queue with a visible message and a free worker."""
        return [
            partial(self._receive, queue) for queue in self._open() if self._queues[queue].waiting()
        ]

    def next_change(self) -> float:
        """When a message becomes visible, in seconds of the clock."""
        start = self.world.clock.now - self.world.clock.monotonic()
        changes = []
        for queue in self._open(at=math.inf):
            at = self._queues[queue].next_change()
            if self._queues[queue].waiting():
                changes.append(self._opens[queue])
            elif at is not None:
                changes.append(max(at - start, self._opens[queue]))
        now = self.world.scheduler.now
        return min((at for at in changes if at > now), default=math.inf)

    def _open(self, at: float | None = None) -> Iterator[names.Queue]:
        at = self.world.scheduler.now if at is None else at
        for queue, busy in self._busy.items():
            if busy < MAX_WORKERS and queue.name not in self.paused and self._opens[queue] <= at:
                yield queue

    def _receive(self, queue: names.Queue) -> None:
        """Receive a batch, and start a worker for it."""
        messages = self.world.sqs.receive_message(
            QueueUrl=queue_url(queue),
            MaxNumberOfMessages=self.world.random.randint(1, queue.batch_size),
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if messages:
            # Those of neighbours take no time, or a slow lane would never come to ours.
            is_ours = not all(is_message_of_neighbours(each["Body"]) for each in messages)
            if is_ours and queue in (names.EXPRESS, names.BULK):
                self._opens[queue] = self.world.scheduler.now + self.seconds_a_message
            self._busy[queue] += 1
            worker = partial(self._work, queue, messages)
            self.world.scheduler.start(worker, f"{queue.consumer.name} on {queue.name}")

    def _work(self, queue: names.Queue, messages: list[Any]) -> None:
        try:
            failed = self._invoke(queue, messages)
            for message in messages:
                if message["MessageId"] not in failed:
                    self.world.sqs.delete_message(
                        QueueUrl=queue_url(queue), ReceiptHandle=message["ReceiptHandle"]
                    )
        finally:
            self._busy[queue] -= 1

    def _invoke(self, queue: names.Queue, messages: list[Any]) -> set[str]:
        """Return the ids of the messages that failed."""
        world, function = self.world, queue.consumer
        is_pressed = function == names.DELIVER and world.faults.are_on
        seconds = function.seconds * (world.time_pressure if is_pressed else 1.0)
        try:
            event = sqs_event(queue.name, messages)
            answer = lambdas().invoke(function.name, event, seconds=seconds)
        except (Crash, Exception) as error:  # noqa: BLE001 - the whole batch fails
            world.note(f"the worker ended: {error!r}")
            return {message["MessageId"] for message in messages}
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    def _start_sweep(self) -> None:
        scheduler = self.world.scheduler
        scheduler.at(scheduler.now + SWEEP_EVERY_SECONDS, self._start_sweep)
        for _ in range(2 if self._random.random() < TWO_SWEEPS else 1):
            scheduler.start(self._sweep, "sweep")

    def _sweep(self) -> None:
        try:
            lambdas().invoke("sweep", {}, seconds=names.SWEEP.seconds)
        except (Crash, Exception) as error:  # noqa: BLE001 - Lambda would log it
            self.world.note(f"sweep failed: {error!r}")

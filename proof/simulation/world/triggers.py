"""What invokes functions in a run: the event source mappings of queues, and SWEEP's schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from fanfold import names
from fanfold.contract import FANOUT_PLAN, SEGMENT_DELIVER
from proof.model.lambda_events import sqs_event
from proof.model.sqs.queues import Queue
from proof.simulation.clients.bodies import content_of
from proof.simulation.world.lambdas import lambdas, queue_url
from proof.simulation.world.neighbours import is_message_of_neighbours
from proof.simulation.world.scheduler import ROUNDING_SECONDS, Crash, Task
from proof.simulation.world.skipped_sweeps import idle_runs

if TYPE_CHECKING:
    from proof.simulation.world.world import World

SWEEP_EVERY_SECONDS = 60.0
# The share of minutes in which EventBridge starts SWEEP twice.
TWO_SWEEPS = 0.1
MAX_WORKERS = 3  # of one queue at a time
# The share of runs in which orders may come without their group or with another, and the groups.
MISGROUPED, GROUPS = 0.1, ("", "p0", "p1", "nobody")
MISGROUPED_ORDERS = 0.3
# How soon a poisonous message kills its worker: before any lasting effect.
KILL_SECONDS = 0.01


@dataclass(eq=False, slots=True)
class Mapping:
    """The event source mapping of one queue."""

    queue: names.Queue
    messages: Queue
    receive: Callable[[], None]  # a batch, for a new worker
    opens: float = 0.0  # in seconds of the scheduler
    busy: int = 0  # workers


class Triggers:
    """The triggers of one run: a source of work for the scheduler, and Lambda's API of mappings."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.paused: set[str] = set()  # queues, whose names are also the ids of their mappings
        self.was_paused = False
        self.skips = False  # whether runs of SWEEP that can change nothing are skipped
        self.lost: set[str] = set()  # fan-outs whose orders vanish when they are received
        self.unreadable: set[str] = set()  # queues from which their mappings fail to receive
        self.runs_sweep = True
        self.seconds_a_message = 0.0  # in a slow lane
        self.slow_lanes: tuple[names.Queue, ...] = names.LANES
        self._random = Random(f"{world.seed} sweeps")
        self._grouping = Random(f"{world.seed} groups")
        self._misgroups = self._grouping.random() < MISGROUPED
        self._mappings = [self._mapping(queue) for queue in names.QUEUES]
        # What `ready` has found. It is called before every turn, and looks again only if a mapping
        # or a queue has changed, or is due to change.
        self._found: list[Callable[[], None]] = []
        self._found_at = -1  # the number of changes that queues had seen
        self._holds_until = 0.0  # in seconds since the epoch
        self._next_at: float | None = None  # for as long, once it was asked for
        world.scheduler.at(SWEEP_EVERY_SECONDS, self._start_sweep)

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803 - AWS's name
        return {"UUID": UUID, "State": "Disabled" if UUID in self.paused else "Enabled"}

    def _mapping(self, queue: names.Queue) -> Mapping:
        mapping = Mapping(queue, self.world.queues.queue(queue_url(queue)), lambda: None)
        mapping.receive = partial(self._receive, mapping)
        return mapping

    def pause(self, queues: set[str]) -> None:
        self.paused |= queues
        self.was_paused = True
        self._look_again()

    def resume(self, queues: Collection[str] | None = None) -> None:
        """Resume these queues, or all."""
        self.paused -= set(self.paused if queues is None else queues)
        self._look_again()

    def lock(self, queue: str) -> None:
        """Make the mapping of a queue fail to receive; it stays enabled."""
        self.unreadable.add(queue)
        self._look_again()

    def unlock(self, queue: str) -> None:
        self.unreadable.discard(queue)
        self._look_again()

    def is_idle(self) -> bool:
        """Whether no worker runs and no queue holds a message."""
        has_messages = any(
            not is_message_of_neighbours(message.body)
            for mapping in self._mappings
            for message in mapping.messages.messages()
        )
        return not any(mapping.busy for mapping in self._mappings) and not has_messages

    def ready(self) -> Sequence[Callable[[], object]]:
        """An action for each queue with a visible message and a free worker."""
        changes = 0
        for mapping in self._mappings:
            changes += mapping.messages.changes
        if changes != self._found_at or self.world.clock.now >= self._holds_until:
            self._look()
            self._found_at = changes
        return self._found

    def next_change(self) -> float:
        """When a message becomes visible, in seconds of the clock."""
        self.ready()  # it may look again
        if self._next_at is None or self._next_at <= self.world.clock.elapsed:
            self._next_at = self._next_of_all()
        return self._next_at

    def _next_of_all(self) -> float:
        start, now = self.world.clock.now - self.world.clock.elapsed, self.world.clock.elapsed
        next_at = math.inf
        for mapping in self._free():
            at = mapping.messages.next_change()
            if mapping.messages.waiting():
                at = mapping.opens
            elif at is not None:
                at = max(at - start, mapping.opens)
            if at is not None and now < at < next_at:
                next_at = at
        return next_at

    def _look(self) -> None:
        start, now = self.world.clock.now - self.world.clock.elapsed, self.world.clock.elapsed
        self._found, self._next_at = [], None
        self._holds_until = math.inf
        for mapping in self._free():
            if mapping.opens > now:
                self._holds_until = min(self._holds_until, start + mapping.opens - ROUNDING_SECONDS)
            elif mapping.messages.waiting():
                self._found.append(mapping.receive)
            elif (at := mapping.messages.next_change()) is not None:
                self._holds_until = min(self._holds_until, at)

    def _look_again(self) -> None:
        self._holds_until = 0.0

    def _free(self) -> list[Mapping]:
        """The mappings with a free worker, open or not."""
        return [
            mapping
            for mapping in self._mappings
            if mapping.busy < MAX_WORKERS
            and mapping.queue.name not in self.paused
            and mapping.queue.name not in self.unreadable
        ]

    def _receive(self, mapping: Mapping) -> None:
        """Receive a batch, and start a worker for it."""
        queue = mapping.queue
        messages = self.world.sqs.receive_message(
            QueueUrl=queue_url(queue),
            MaxNumberOfMessages=self.world.random.randint(1, queue.batch_size),
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if self.lost:
            messages = [each for each in messages if not self._vanishes(queue, each)]
        if self._misgroups:
            for each in messages:
                self._misgroup(each)
        if messages and self.world.faults.strikes("uninvoked"):
            return  # they are received again after the visibility timeout, which counts
        if messages:
            # Neighbours' messages take no time; otherwise a slow lane would never reach ours.
            is_ours = not all(is_message_of_neighbours(each["Body"]) for each in messages)
            if is_ours and queue in self.slow_lanes:
                mapping.opens = self.world.scheduler.now + self.seconds_a_message
            mapping.busy += 1
            self._look_again()
            worker = partial(self._work, mapping, messages)
            self.world.scheduler.start(worker, f"{queue.consumer.name} on {queue.name}")

    def _vanishes(self, queue: names.Queue, message: Any) -> bool:
        content = content_of(message["Body"])
        if content.get("fanout_id") not in self.lost:
            return False
        self.world.sqs.delete_message(
            QueueUrl=queue_url(queue), ReceiptHandle=message["ReceiptHandle"]
        )
        return True

    def _misgroup(self, message: Any) -> None:
        """Perhaps change the group of an order, as if somebody had sent it again by hand."""
        is_order = content_of(message["Body"]).get("type") in (FANOUT_PLAN, SEGMENT_DELIVER)
        if is_order and self._grouping.random() < MISGROUPED_ORDERS:
            message["Attributes"]["MessageGroupId"] = self._grouping.choice(GROUPS)
            self.world.reached.note("an order under another's name")

    def _work(self, mapping: Mapping, messages: list[Any]) -> None:
        queue, task, reached = mapping.queue, self.world.scheduler.current, self.world.reached
        reached.begun(queue, messages, task)
        task.messages = messages
        try:
            failed = self._invoke(queue, messages)
            self.world.observer.handled(queue, task, failed)
            for message in messages:
                if message["MessageId"] not in failed:
                    self.world.sqs.delete_message(
                        QueueUrl=queue_url(queue), ReceiptHandle=message["ReceiptHandle"]
                    )
        finally:
            reached.ended(task)
            mapping.busy -= 1
            self._look_again()

    def _invoke(self, queue: names.Queue, messages: list[Any]) -> set[str]:
        """Return the ids of the messages that failed."""
        world, function = self.world, queue.consumer
        is_pressed = function == names.DELIVER and world.faults.are_on
        seconds = function.seconds * (world.time_pressure if is_pressed else 1.0)
        if world.faults.is_poisonous(messages):
            self._kill_soon(world.scheduler.current)
        try:
            event = sqs_event(queue.name, messages)
            answer = lambdas().invoke(function.name, event, seconds=seconds)
        except (Crash, Exception) as error:  # noqa: BLE001 - the whole batch fails
            world.scheduler.current.faults += isinstance(error, Crash)
            world.note(f"the worker ended: {error!r}")
            return {message["MessageId"] for message in messages}
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    def _kill_soon(self, task: Task) -> None:
        """Kill the process of an invocation at one of its next calls."""

        def kill() -> None:
            task.is_dying = task.may_crash

        self.world.scheduler.at(
            self.world.scheduler.now + self._random.uniform(0, KILL_SECONDS), kill
        )

    def _start_sweep(self) -> None:
        scheduler = self.world.scheduler
        skipped = idle_runs(self.world) if self.skips else 0
        scheduler.at(scheduler.now + max(1, skipped) * SWEEP_EVERY_SECONDS, self._start_sweep)
        if skipped or not self.runs_sweep:
            return
        for _ in range(2 if self._random.random() < TWO_SWEEPS else 1):
            scheduler.start(self._sweep, "sweep")

    def _sweep(self) -> None:
        try:
            lambdas().invoke("sweep", {}, seconds=names.SWEEP.seconds)
        except (Crash, Exception) as error:  # noqa: BLE001 - Lambda would log it
            self.world.note(f"sweep failed: {error!r}")

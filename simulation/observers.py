"""What shows only while a run lasts, observed call by call: for the checks, or as a violation."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from aws_model.dynamodb.capacity import Bucket
from fanfold import contract, names, times
from fanfold.aws.retries import is_throttle
from fanfold.fanout.pacing import BURST_SECONDS
from fanfold.fanout.row import COMPLETE
from fanfold.follows.ring import follower_of, publisher_of
from fanfold.ids import split_sort_key
from simulation.lambdas import BURST_ENTRIES, MAX_IN_FLIGHT, MAX_PUTS
from simulation.levels import Levels
from simulation.scheduler import Task
from simulation.sweeps import Sweeps

if TYPE_CHECKING:
    from simulation.world import World

# Whoever changed a row this recently may be about to change it again.
RECENT_MS = 30_000
# PLAN recognizes its own plan by its millisecond; two plans of the same one are both sent.
SAME_PLAN_SECONDS = 0.1

Pair = tuple[str, str]  # user, publisher


def pair_of(edge: dict[str, Any]) -> Pair:
    """The user and the publisher of an edge, in DynamoDB's form."""
    return follower_of(edge["edge"]["S"]), publisher_of(edge["shard_id"]["S"])


@dataclass(eq=False)
class Change:
    """A row changed to `state`, or an edge that was put late."""

    task: Task
    pair: Pair
    at_ms: float
    state: str = ""
    completed_ms: float = math.inf  # when its invocation succeeded; infinite if it did not


@dataclass
class Relations:
    """The changes of all following rows, and the edges put late."""

    rows: dict[Pair, list[Change]] = field(default_factory=lambda: defaultdict(list))
    late: dict[Pair, list[Change]] = field(default_factory=lambda: defaultdict(list))
    _open: list[Change] = field(default_factory=list)

    def changed(self, request: dict[str, Any], task: Task, now_ms: float) -> None:
        for each in request["TransactItems"]:
            update = each.get("Update", {})
            if update.get("TableName") == names.FOLLOWING.name:
                pair = update["Key"]["user_id"]["S"], update["Key"]["publisher_id"]["S"]
                state = update["ExpressionAttributeValues"][":state"]["S"]
                self._add(self.rows[pair], Change(task, pair, now_ms, state))

    def put_late(self, pair: Pair, task: Task, now_ms: float) -> None:
        """An edge is put that is older than its row; its task will notice when it reads again."""
        self._add(self.late[pair], Change(task, pair, now_ms))

    def _add(self, changes: list[Change], change: Change) -> None:
        changes.append(change)
        self._open.append(change)

    def changes(self, pair: Pair) -> list[tuple[float, bool]]:
        """When a user began to follow (true) and ended it, in alternation."""
        found: list[tuple[float, bool]] = []
        for change in self.rows[pair]:
            follows = change.state == "followed"
            # A transaction that is repeated after a lost answer has no second effect.
            if follows is not (found[-1][1] if found else False):
                found.append((change.at_ms, follows))
        return found

    def completed(self, task: Task, now_ms: float, edges: Callable[[], Collection[Pair]]) -> None:
        """The task's invocation succeeded.

        Where there is no edge of a follow, or still one of an unfollow, PLAN left it to RELATE.
        """
        changes = [change for change in self._open if change.task is task]
        if changes and task.name.startswith(names.PLAN.name):
            there = edges()
            changes = [c for c in changes if (c.pair in there) is (c.state == "followed")]
        for change in changes:
            change.completed_ms = now_ms
        self.stopped(task)

    def stopped(self, task: Task) -> None:
        """The task's invocation has ended."""
        self._open = [change for change in self._open if change.task is not task]

    def has_late_edge(self, pair: Pair, begun_ms: float, ended_ms: float) -> bool:
        """Whether an edge put late may have been there at some time of an interval."""
        return any(
            change.at_ms <= ended_ms and change.completed_ms > begun_ms
            for change in self.late[pair]
        )

    def standing(
        self, publisher: str, begun_ms: float, ended_ms: float
    ) -> Iterator[tuple[str, str]]:
        """Each user whose state was reconciled before an interval and did not change in it."""
        for (user, followed), changes in list(self.rows.items()):
            before = [change for change in changes if change.at_ms < begun_ms]
            if followed != publisher or not before:
                continue
            is_stable = not any(begun_ms <= change.at_ms <= ended_ms for change in changes)
            if is_stable and before[-1].completed_ms < begun_ms:
                yield user, before[-1].state


@dataclass
class Observer:
    """Sees every call of a run before it is made and after it was applied or rejected."""

    world: World
    violations: list[str] = field(default_factory=list)
    relations: Relations = field(default_factory=Relations)
    levels: Levels = field(default_factory=Levels)
    sweeps: Sweeps = field(init=False)
    ended_ms: dict[str, float] = field(default_factory=dict)  # a post's last write, by `ref_id`
    retracted: dict[str, int] = field(default_factory=dict)  # a post's turn, by `ref_id`
    repairs: int = 0  # writes and messages of SWEEP
    puts: int = 0  # entries that workers asked to put, counted at every attempt
    was_planned_twice: bool = False
    _planned: dict[tuple[str, int], float] = field(default_factory=dict)
    _paces: dict[str, Bucket] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sweeps = Sweeps(self.world, self.violations)

    def before(self, operation: str, request: dict[str, Any]) -> None:
        """A call is about to be made."""
        task = self.world.scheduler.current
        if operation == "batch_write_item":
            self._check_pace(len(request["RequestItems"].get(names.TIMELINES.name, ())))
        if operation == "put_item" and request["TableName"] == names.FOLLOWERS.name:
            self._note_late_edge(request["Item"])
        if task.name == "sweep":
            self.repairs += self._is_repair(operation, request)
            if operation == "update_item":
                self.sweeps.noting(request)
        if operation != "send_message_batch":
            return
        queue = self.world.queues.queue(request["QueueUrl"]).name
        if task.name == "sweep" and queue in self.world.triggers.paused:
            self.violations.append(f"SWEEP sends to {queue}, which is paused.")
        for entry in request["Entries"]:
            content = json.loads(entry["MessageBody"])
            self.world.reached.sending(content, task)
            if task.name == "sweep":
                self.sweeps.sending(content)
            if content["type"] == contract.SEGMENT_DELIVER:
                self._check_segment(content)

    def applied(self, operation: str, request: dict[str, Any], answer: Any) -> None:
        """A call was applied, and is about to be answered."""
        table, task = request.get("TableName"), self.world.scheduler.current
        self.world.reached.applied(operation, request, answer, task)
        now, now_ms = self.world.clock.elapsed, self.world.clock.now_ms()
        if operation == "transact_write_items":
            self.relations.changed(request, task, now_ms)
        elif operation == "update_item" and table == names.PUBLISHERS.name:
            self.violations += self.levels.changed(task.environment, request, now)
        elif operation == "update_item" and table == names.POSTS.name:
            self.retracted.setdefault(request["Key"]["ref_id"]["S"], self.world.scheduler.turns)
        elif operation == "update_item" and table == names.FANOUTS.name:
            if task.name == "sweep":
                self.sweeps.noted(request)
            row = self.world.row(names.FANOUTS, request["Key"])
            self.world.reached.ledger_changed(request, row, task)
            if "state" in row and row["state"]["S"] == COMPLETE:
                self.ended_ms[request["Key"]["fanout_id"]["S"]] = now_ms
        elif operation == "batch_write_item":
            for put in request["RequestItems"].get(names.TIMELINES.name, ()):
                ref_id = split_sort_key(put["PutRequest"]["Item"]["sort_key"]["S"])[1]
                self.ended_ms[ref_id] = now_ms
        elif operation == "put_item" and table == names.FOLLOWERS.name:
            self.levels.followed(pair_of(request["Item"])[1], now)

    def rejected(self, operation: str, request: dict[str, Any], error: ClientError) -> None:
        """A call was answered with an error, and had no effect."""
        task = self.world.scheduler.current
        self.world.reached.rejected(request, error, task)
        environment = task.environment
        self.levels.rejected(environment, request, error)
        is_put = operation == "put_item" and request["TableName"] == names.FOLLOWERS.name
        if is_put and not is_throttle(error):  # the edge is already there
            self.levels.followed(pair_of(request["Item"])[1], self.world.clock.elapsed)

    def _check_pace(self, entries: int) -> None:
        """Check that a worker keeps to its lane's rate.

        Calls are seen when they have their effect; as many as may be in flight were sent before.
        """
        self.puts += entries
        rate = self.world.worker_rate
        burst = max(BURST_ENTRIES, rate * BURST_SECONDS)
        size = burst + MAX_IN_FLIGHT * MAX_PUTS
        now, task = self.world.clock.elapsed, self.world.scheduler.current
        bucket = self._paces.setdefault(
            f"{task.environment} {task.name}", Bucket(rate, size, size, now)
        )
        if not bucket.admits(entries, now):
            self.violations.append(f"{task.name} puts more entries than {rate} a second.")
        bucket.take(entries)

    def _note_late_edge(self, edge: dict[str, Any]) -> None:
        """Note an edge put by a task that read its row before the row was changed again."""
        user, publisher = pair = pair_of(edge)
        key = {"user_id": {"S": user}, "publisher_id": {"S": publisher}}
        row = self.world.row(names.FOLLOWING, key)
        if row and int(edge["version"]["N"]) < int(row["version"]["N"]):
            self.relations.put_late(pair, self.world.scheduler.current, self.world.clock.now_ms())

    def _is_repair(self, operation: str, request: dict[str, Any]) -> bool:
        """Whether SWEEP sends, or completes a fan-out that no worker has just changed."""
        if operation != "update_item":
            return operation == "send_message_batch"
        row = self.world.row(names.FANOUTS, request["Key"])
        if "state" not in row:  # what SWEEP remembers
            return False
        return self.world.clock.now_ms() - times.to_ms(row["changed_at"]["S"]) > RECENT_MS

    def _check_segment(self, content: dict[str, Any]) -> None:
        """Check a segment that is being sent against the ledger."""
        fanout_id, segment = content["fanout_id"], content["segment"]
        if self.world.scheduler.current.name.startswith("plan"):
            now = self.world.clock.elapsed
            last = self._planned.setdefault((fanout_id, segment), now)
            self.was_planned_twice |= 0 < now - last < SAME_PLAN_SECONDS
        row = self.world.row(names.FANOUTS, {"fanout_id": {"S": fanout_id}})
        if not row:
            self.violations.append(f"A segment of {fanout_id} is sent, unknown to the ledger.")
            return
        stored = row.get("resume", {}).get("M", {}).get(str(segment), {}).get("S", "")
        position: str = content["position"]
        is_pending = str(segment) in row.get("pending", {}).get("NS", [])
        is_rest = position and content["hops"] == 0
        if is_pending and is_rest and position > stored[: len(position)]:
            self.violations.append(f"A rest of {fanout_id} is sent that the ledger does not know.")

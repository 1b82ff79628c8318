"""Observes a run call by call, for the checks, and finds violations that show only then."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from fanfold import contract, names, times
from fanfold.aws.items import get_text
from fanfold.aws.retries import is_throttle
from fanfold.fanout.pacing import BURST_SECONDS
from fanfold.fanout.row import COMPLETE, STALLED
from fanfold.follows.relation import FOLLOWED, STATES
from fanfold.follows.ring import follower_of
from fanfold.ids import split_sort_key
from fanfold.sweep.open_fanouts import MEMORY_ID
from proof.model.dynamodb.capacity import Bucket
from proof.simulation.clients.bodies import content_of
from proof.simulation.clients.history import Pair, PutEdge
from proof.simulation.clients.spans import Span
from proof.simulation.observed.channels import channel_puts, is_channel, is_of_head
from proof.simulation.observed.levels import ObservedLevels
from proof.simulation.observed.one_hops import RECEIVES, OneHops
from proof.simulation.observed.sweeps import Sweeps
from proof.simulation.oracle.follows import FOLLOWS, NONE, SHUT, SHUTS, WAITS, RowChange
from proof.simulation.world.lambdas import BURST_ENTRIES, MAX_IN_FLIGHT, MAX_PUTS

if TYPE_CHECKING:
    from proof.simulation.world.scheduler import Task
    from proof.simulation.world.world import World

# The stage of a relation by what its row says.
STAGES = dict(zip(STATES, (FOLLOWS, WAITS, NONE), strict=True))
# A writer that changed a row this recently may be about to change it again.
RECENT_MS = 30_000
# PLAN recognizes its plan by its millisecond, so two plans of the same millisecond are both sent.
SAME_PLAN_SECONDS = 0.1


def pair_of(edge: dict[str, Any]) -> Pair:
    """The user and the publisher of an edge, in DynamoDB's form."""
    return follower_of(edge["edge"]["S"]), edge["shard_id"]["S"].partition("#")[0]


def _is_relate(task: Task) -> bool:
    """Whether a task is RELATE, which writes entries of older posts after a follow."""
    return task.name.startswith(names.RELATE.name)


def _is_by_plan(task: Task) -> bool:
    """Whether a task is PLAN, which writes the entries of few followers itself."""
    return task.name.startswith(names.PLAN.name)


def _is_plan(request: dict[str, Any]) -> bool:
    """Whether an update fixes the plan of a fan-out, rather than completing it without one."""
    values: dict[str, Any] = request.get("ExpressionAttributeValues", {})
    return {":segments", ":pending"} <= values.keys()


def _is_at_once(request: dict[str, Any]) -> bool:
    """Whether an update completes a fan-out without a plan."""
    values: dict[str, Any] = request.get("ExpressionAttributeValues", {})
    return {":segments", ":completed_at"} <= values.keys()


def _is_edit(request: dict[str, Any]) -> bool:
    """Whether an update edits a post; otherwise it retracts the post."""
    return ":edited_at" in request["ExpressionAttributeValues"]


@dataclass
class Observer:
    """Observes every call of a run, before it is made and after it was applied or rejected."""

    world: World
    violations: list[str] = field(default_factory=list)
    # When the row of each relation began to say that the user follows (true), and ended it.
    changes: dict[Pair, list[RowChange]] = field(default_factory=lambda: defaultdict(list))
    levels: ObservedLevels = field(default_factory=ObservedLevels)
    sweeps: Sweeps = field(init=False)
    # When the service first said that a post was delivered, and when it first wrote an entry.
    completed_ms: dict[str, float] = field(default_factory=dict)
    entered_ms: dict[tuple[str, str], float] = field(default_factory=dict)  # by user and sort key
    # By user and sort key: when a fan-out first wrote an entry, and when one was first there.
    delivered_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    landed_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    # The last time: a post is delivered again if a restore has lost its row in the ledger.
    completed_last_ms: dict[str, float] = field(default_factory=dict)
    # How many completions took so many seconds, of which no function has reported that yet.
    unreported: Counter[float] = field(default_factory=Counter)
    # Whose post each entry is, by user and sort key; and when each post was stored, by `ref_id`.
    publishers: dict[tuple[str, str], str] = field(default_factory=dict)
    posted_ms: dict[str, float] = field(default_factory=dict)
    # By user and sort key: how often a fan-out wrote an entry, and RELATE after a follow.
    written: Counter[tuple[str, str]] = field(default_factory=Counter)
    filled: Counter[tuple[str, str]] = field(default_factory=Counter)
    # When the invocation of RELATE began that was the first to write an entry.
    filled_since_ms: dict[tuple[str, str], float] = field(default_factory=dict)
    retracted: dict[str, int] = field(default_factory=dict)  # a post's turn, by `ref_id`
    repairs: int = 0  # writes and messages of SWEEP
    puts: int = 0  # entries that fan-outs asked to put, counted at every attempt
    was_planned_twice: bool = False
    # The tasks of PLAN that wrote a fan-out's entries or fixed its plan.
    planners: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    one_hops: OneHops = field(init=False)
    at_once: set[str] = field(default_factory=set)  # fan-outs that were completed without a plan
    _tokens: set[str] = field(default_factory=set)  # of transactions that were applied
    # Which task first planned a segment, and when.
    _planned: dict[tuple[str, int], tuple[int, float]] = field(default_factory=dict)
    # When a fan-out was planned, as its worker noted it, and as each task would have noted it.
    _plans: dict[str, str] = field(default_factory=dict)
    _plans_of: dict[tuple[str, int], str] = field(default_factory=dict)
    # The fan-outs for which a task has written new entries.
    _new_entries: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    # Edits that found no post: their tasks and posts.
    early: set[tuple[int, str]] = field(default_factory=set)
    # Posts whose count towards their publisher's rate has failed.
    uncounted: set[str] = field(default_factory=set)
    _paces: dict[str, Bucket] = field(default_factory=dict)
    # Mappings that a run of SWEEP could not read: its task, and the queue.
    _unread: set[tuple[int, str]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.sweeps = Sweeps(self.world, self.violations)
        self.one_hops = OneHops(self.world, self.violations)

    def broken(self, name: str, **ids: object) -> None:
        """The product reports an invariant, which no world without damage breaks."""
        self.violations.append(f"The invariant {name} is broken: {ids}.")

    def before(self, operation: str, request: dict[str, Any]) -> None:
        """A call is about to be made."""
        task = self.world.scheduler.current
        is_channels = operation == "batch_write_item" and any(channel_puts(request))
        if operation == "batch_write_item" and not (_is_relate(task) or is_channels):
            self._check_pace(len(request["RequestItems"].get(names.TIMELINES.name, ())))
            if _is_by_plan(task):
                self.one_hops.writing(request, task)
        self.landing(operation, request)
        if operation == "send_message":  # an order that is rejected made no progress
            self._new_entries.pop(task.number, None)
        if operation == "update_item" and _is_plan(request):
            at = request["ExpressionAttributeValues"][":changed_at"]["S"]
            self._plans_of[request["Key"]["fanout_id"]["S"], task.number] = at
        if task.name == "sweep" and not is_of_head(request):
            self.repairs += self._is_repair(operation, request)
        # What has attributes is a letter that an operator moves back.
        if operation != "send_message_batch" or "MessageAttributes" in request["Entries"][0]:
            return
        queue = self.world.queues.queue(request["QueueUrl"]).name
        is_paused = queue in self.world.triggers.paused
        if task.name == "sweep" and is_paused and not self._is_unknown(queue, task):
            self.violations.append(f"SWEEP sends to {queue}, which is paused.")
        for entry in request["Entries"]:
            content = json.loads(entry["MessageBody"])
            self.world.reached.sending(content, task)
            if task.name == "sweep":
                self.sweeps.sending(content)
            if content["type"] == contract.SEGMENT_DELIVER:
                self._check_segment(content)
                if content["hops"]:  # handed back without progress: no entry counts
                    self._new_entries.pop(task.number, None)

    def landing(self, operation: str, request: dict[str, Any]) -> None:
        """A write may be about to change its row, which is read before that."""
        if operation == "put_item" and request["TableName"] == names.FOLLOWERS.name:
            self._note_edge(request["Item"])
        is_of_sweep = self.world.scheduler.current.name == "sweep"
        if is_of_sweep and operation == "update_item" and not is_of_head(request):
            self.sweeps.noting(request)

    def applied(self, operation: str, request: dict[str, Any], answer: Any) -> None:
        """A call was applied, and is about to be answered."""
        table, task = request.get("TableName"), self.world.scheduler.current
        self.world.reached.applied(operation, request, answer, task)
        now, now_ms = self.world.clock.elapsed, self.world.clock.now_ms()
        self.world.channels.applied(operation, request, answer, now_ms)
        if operation == "transact_write_items":
            self._note_changes(request, now_ms)
        elif operation == "get_event_source_mapping":
            self._unread.discard((task.number, request["UUID"]))
        elif operation == "update_item" and table == names.PUBLISHERS.name:
            self.violations += self.levels.changed(task.environment, request, now)
        elif operation == "update_item" and table == names.POSTS.name and not _is_edit(request):
            self.retracted.setdefault(request["Key"]["ref_id"]["S"], self.world.scheduler.turns)
        elif operation == "update_item" and table == names.FANOUTS.name:
            if task.name == "sweep":
                self.sweeps.noted(request)
            if _is_plan(request):
                fanout_id = request["Key"]["fanout_id"]["S"]
                self.planners[fanout_id].add(task.number)
                self._plans[fanout_id] = self._plans_of[fanout_id, task.number]
            if _is_at_once(request):
                self.at_once.add(request["Key"]["fanout_id"]["S"])
            row = self.world.row(names.FANOUTS, request["Key"])
            self.world.reached.ledger_changed(request, row, task)
            if "state" in row and row["state"]["S"] == COMPLETE:
                self.world.channels.completed(row, now_ms)
                self.completed_ms.setdefault(row["fanout_id"]["S"], now_ms)
                self.completed_last_ms[row["fanout_id"]["S"]] = now_ms
                if ":completed_at" in request["ExpressionAttributeValues"]:
                    times_ms = (times.to_ms(row[at]["S"]) for at in ("accepted_at", "completed_at"))
                    accepted_ms, completed_ms = times_ms
                    self.unreported[max(0, completed_ms - accepted_ms) / 1000] += 1
        elif operation == "batch_get_item" and _is_by_plan(task):
            self.one_hops.read(request, answer, task)
        elif operation == "batch_write_item":
            left = answer.get("UnprocessedItems", {}).get(names.TIMELINES.name, ())
            for put in request["RequestItems"].get(names.TIMELINES.name, ()):
                item = put["PutRequest"]["Item"]
                key = item["user_id"]["S"], item["sort_key"]["S"]
                if is_channel(key[0]):
                    continue
                if _is_relate(task) and key not in self.entered_ms:
                    self.filled_since_ms[key] = task.work.begun_ms if task.work else now_ms
                self.entered_ms.setdefault(key, now_ms)
                if _is_by_plan(task):
                    self.planners[split_sort_key(key[1])[1]].add(task.number)
                if put not in left:
                    self.landed_ms.setdefault(key, now_ms)
                    self.publishers[key] = get_text(item, "publisher_id")
                    if _is_relate(task):
                        self.filled[key] += 1
                        continue
                    self.delivered_ms.setdefault(key, now_ms)
                    if not self.written[key]:
                        self._new_entries[task.number].add(split_sort_key(key[1])[1])
                    self.written[key] += 1
        elif operation == "put_item" and table == names.FOLLOWERS.name:
            self.levels.followed(pair_of(request["Item"])[1], now)
        elif operation == "put_item" and table == names.POSTS.name:
            self.posted_ms.setdefault(request["Item"]["ref_id"]["S"], now_ms)

    def rejected(self, operation: str, request: dict[str, Any], error: ClientError) -> None:
        """A call was answered with an error, and had no effect."""
        task = self.world.scheduler.current
        self.world.reached.rejected(request, error, task)
        environment = task.environment
        self.levels.rejected(environment, request, error)
        is_of_post = operation == "update_item" and request["TableName"] == names.POSTS.name
        if is_of_post and _is_edit(request) and not self.world.row(names.POSTS, request["Key"]):
            self.early.add((task.number, request["Key"]["ref_id"]["S"]))
        is_put = operation == "put_item" and request["TableName"] == names.FOLLOWERS.name
        if is_put and not is_throttle(error):  # the edge is already there
            self.levels.followed(pair_of(request["Item"])[1], self.world.clock.elapsed)

    def failed(self, operation: str, request: dict[str, Any]) -> None:
        """A call has failed, or its answer was lost."""
        if operation == "get_event_source_mapping":
            self._unread.add((self.world.scheduler.current.number, request["UUID"]))
        if operation == "update_item" and request["TableName"] == names.PUBLISHERS.name:
            counted = request.get("ExpressionAttributeValues", {}).get(":last_post")
            if counted:
                self.uncounted.add(counted["S"])

    def reported(self, took: Iterable[float]) -> None:
        """A function has reported how many seconds some deliveries took: each once at most."""
        for seconds in took:
            if not self.unreported[seconds]:
                self.violations.append(f"A delivery took {seconds} s by a report, and none did.")
            self.unreported[seconds] -= 1

    def _is_unknown(self, queue: str, task: Task) -> bool:
        """Whether SWEEP could not know that a queue is paused.

        "A run that is not told whether a queue is paused takes it to be as the last run noted it.
        Where that note was refused as well, it asks in a queue that is paused"
        (docs/decisions/0013-sweep-asks.md).
        """
        noted = self.world.row(names.FANOUTS, {"fanout_id": {"S": MEMORY_ID}}) or {}
        held = noted.get("held", {}).get("SS", ())
        return (task.number, queue) in self._unread and queue not in held

    def _check_pace(self, entries: int) -> None:
        """Check that a worker keeps to its lane's rate.

        Calls are observed at their effect, so calls in flight may have been sent before.
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

    def _note_edge(self, edge: dict[str, Any]) -> None:
        """Note an edge put by an invocation that read the row before its last change.

        A worker that reconciles an earlier follow and stalls may restore the edge after the
        unfollow was acknowledged (docs/reliability.md), even by a write after its time-out.
        """
        user, publisher = pair = pair_of(edge)
        key = {"user_id": {"S": user}, "publisher_id": {"S": publisher}}
        row = self.world.row(names.FOLLOWING, key)
        if row and int(edge["version"]["N"]) < int(row["version"]["N"]):
            now_ms, work = self.world.clock.now_ms(), self.world.scheduler.current.work
            put = PutEdge(work or Span(now_ms), now_ms)
            self.world.history.relations[pair].puts.append(put)

    def _note_changes(self, request: dict[str, Any], now_ms: int) -> None:
        if request["ClientRequestToken"] in self._tokens:
            return  # repeated after a lost answer, a transaction has no second effect
        self._tokens.add(request["ClientRequestToken"])
        unseen = 0.0
        if request["ClientRequestToken"] in self.world.database.in_progress:
            unseen = 1000 * (self.world.appeared_at - self.world.scheduler.now)
        for each in request["TransactItems"]:
            update = each.get("Update", {})
            if update.get("TableName") == names.FOLLOWING.name:
                pair = update["Key"]["user_id"]["S"], update["Key"]["publisher_id"]["S"]
                values = update["ExpressionAttributeValues"]
                state = values[":state"]["S"]
                relation = STAGES[state] | SHUT * (":shut" in values) | SHUTS * (":shuts" in values)
                before = self.changes[pair][-1].relation or NONE if self.changes[pair] else NONE
                self.world.reached.related(before, relation, self.world.scheduler.current)
                change = RowChange(now_ms, state == FOLLOWED, unseen, relation)
                self.changes[pair].append(change)

    def _is_repair(self, operation: str, request: dict[str, Any]) -> bool:
        """Whether SWEEP sends, or completes a fan-out that no worker has just changed."""
        if operation != "update_item":
            return operation == "send_message_batch"
        row = self.world.row(names.FANOUTS, request["Key"])
        if "state" not in row:  # what SWEEP remembers
            return False
        return self.world.clock.now_ms() - times.to_ms(row["changed_at"]["S"]) > RECENT_MS

    def handled(self, queue: names.Queue, task: Task, failed: Collection[str]) -> None:
        """A worker has handled its messages, except those `failed` (ids), which come again.

        A message may fail only if a call failed or was slow, or the worker was killed, or if it
        edits a post that has not arrived. After an order with progress, its fan-out is open again.
        """
        bodies = [each["Body"] for each in task.messages if each["MessageId"] in failed]
        bodies = [body for body in bodies if not self._is_early(task, body)]
        if bodies and not task.faults:
            self.violations.append(
                f"A message of {queue.name} fails, and nothing has failed it: {bodies[0][:80]}."
            )
        if failed:
            return
        for fanout_id in sorted(self._new_entries.pop(task.number, ())):
            row = self.world.row(names.FANOUTS, {"fanout_id": {"S": fanout_id}})
            if row and row["state"]["S"] == STALLED:
                self.violations.append(f"{fanout_id} is stalled, and has just made progress.")

    def _is_early(self, task: Task, body: str) -> bool:
        """Whether what an edit or an approval is for had not come."""
        content = content_of(body)
        if content.get("type") == contract.FOLLOWER_APPROVED:
            pair = content["user_id"], content["publisher_id"]
            begun_ms = task.work.begun_ms if task.work else 0
            at, relation = -math.inf, NONE
            for change in self.changes[pair][-1:]:
                at, relation = change.at + change.unseen_ms, change.relation or NONE
            return at >= begun_ms or relation % SHUT == NONE
        is_edit = content.get("type") == contract.POST_UPDATED
        return is_edit and (task.number, content["ref_id"]) in self.early

    def _check_planner(self, fanout_id: str) -> None:
        """Check that PLAN sends its own plan, or one whose earlier send may have failed.

        It recognizes a plan by its time, so two plans of one millisecond are both sent.
        """
        task = self.world.scheduler.current
        mine = self._plans_of.get((fanout_id, task.number), "")
        comes_again = any(
            fanout_id in message["Body"] and message["Attributes"][RECEIVES] != "1"
            for message in task.messages
        )
        if mine != self._plans.get(fanout_id) and not comes_again:
            self.violations.append(f"PLAN sends a segment of {fanout_id} that others planned.")

    def _check_segment(self, content: dict[str, Any]) -> None:
        """Check a segment that is being sent against the ledger."""
        fanout_id, segment = content["fanout_id"], content["segment"]
        task = self.world.scheduler.current
        if task.name.startswith("plan"):
            now = self.world.clock.elapsed
            first, at = self._planned.setdefault((fanout_id, segment), (task.number, now))
            self.was_planned_twice |= first != task.number and now - at < SAME_PLAN_SECONDS
            self._check_planner(fanout_id)
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

"""The states that runs reach, as "sometimes" assertions: checks prove nothing of unreached states.

States are observed in requests, changes and answers of calls, and in what is left at the end, never
in the product's own metrics or logs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from fanfold import contract, names
from fanfold.aws.items import get_number, get_text
from fanfold.fanout.deliver import HAND_BACK_SECONDS
from fanfold.fanout.row import ABANDONED, COMPLETE, DELIVERING, ENDED, EXPIRED, QUEUED, STALLED
from fanfold.follows.publishers_table import ALL
from fanfold.ids import split_sort_key
from fanfold.sweep.open_fanouts import MEMORY_ID
from fanfold.sweep.silence import MAX_ROUNDS
from proof.simulation.clients.bodies import content_of
from proof.simulation.observed.channels import is_channel
from proof.simulation.observed.reached_channels import STATES as OF_CHANNELS
from proof.simulation.observed.reached_channels import ReachedChannels
from proof.simulation.oracle.follows import FOLLOWS, NONE, SHUT, WAITS
from proof.simulation.world.neighbours import is_of_neighbours

if TYPE_CHECKING:
    from proof.simulation.world.scheduler import Task
    from proof.simulation.world.world import World

# A state with fewer runs than this expected may be missed by chance.
EXPECTED = 12
# One in so many expected runs must reach it. With twelve expected runs, fewer than three do
# so by chance only once in two thousand times.
PART = 4

# The number of 10,000 runs that reached each state when this was measured, rounded down.
STATES: Mapping[str, int] = {
    "SWEEP asks PLAN": 1_000,
    "SWEEP asks a lane": 1_000,
    "SWEEP sees a paused queue": 2_000,
    "SWEEP's question answered": 1_000,
    "a block": 800,
    "a block of a follower": 300,
    "a block undone": 200,
    "a blocked user asks": 500,
    "a late entry shown upwards": 1_000,
    "a message over the rate": 500,
    "a publisher hidden": 5_000,
    "a publisher shown again": 4_000,
    "a page is read a second time": 200,
    "a reader's follows are verified": 800,
    "a request approved or opened": 250,
    "a request ended": 500,
    "a request opened by RELATE": 100,
    "a request waits": 1_000,
    "a round of SWEEP": 500,
    "a tombstone met": 3_000,
    "a transaction in conflict": 900,
    "abandoned": 1_000,
    "an edit before its post": 1_000,
    "an entry whose post is retracted": 2_000,
    "an older marker": 80,
    "an order under another's name": 800,
    "an unfollow without a mark": 300,
    "an update in conflict": 500,
    "completed by SWEEP": 20,
    "contended: abandoned": 400,
    "contended: completion": 80,
    "contended: edge put": 2_000,
    "contended: edge removed": 80,
    "contended: edit": 2_000,
    "contended: finish": 1_000,
    "contended: follow": 1_000,
    "contended: follow asked again": 1_000,
    "contended: giving up": 12,
    "contended: growth": 30,
    "contended: one hop": 600,
    "contended: opening": 2_000,
    "contended: plan": 1_500,
    "contended: publish key": 4_000,
    "contended: question": 300,
    "contended: resume": 500,
    "contended: retraction": 4_000,
    "contended: round": 70,
    "contended: touch": 300,
    "edge put by RELATE": 2_000,
    "edge removed by RELATE": 1_000,
    "expired": 100,
    "filled in after a follow": 3_000,
    "filled in by another pass": 3_000,
    "given up: a dead letter of Bulk": 70,
    "given up: a dead letter of Express": 80,
    "given up: a dead letter of Publish": 90,
    "growth": 1_000,
    "handed back above the plan's level": 70,
    "handed back as time ran out": 2_000,
    "handed back before": 2_000,
    "handed back with stragglers": 3_000,
    "handed back without progress": 3_000,
    "late, and told: large": 60,
    "late, and told: not in the ledger": 40,
    "late, and told: small": 140,
    "late, and told: stalled": 12,
    "marks that have expired": 40,
    "more pages of followers": 7_000,
    "nobody follows": 700,
    "one hop: a growth meanwhile": 30,
    "one hop: another began it, too": 700,
    "one hop: by boto3": 1_800,
    "one hop: by libcurl": 1_900,
    "one hop: completed in a lane": 800,
    "one hop: finished after another's plan": 200,
    "one hop: handed back": 900,
    "one hop: handed back with stragglers": 900,
    "one hop: handed back without progress": 250,
    "one hop: retracted meanwhile": 150,
    "one segment planned from its start": 5_000,
    "redriven": 200,
    "reopened by an operator": 100,
    "reopened by progress": 13,
    "retracted during its delivery": 1_000,
    "stalled": 90,
    "taken over: DELIVER goes on from another's resume": 600,
    "taken over: PLAN sends another's plan": 1_000,
    "ten rounds of SWEEP": 100,
    "two deliverers of a segment": 2_000,
    "unprocessed items": 4_000,
    "unprocessed keys": 1_000,
    "unprocessed keys of a lookup": 3_000,
    **OF_CHANNELS,
}

CONDITION, CANCELLED = "ConditionalCheckFailedException", "TransactionCanceledException"
CONFLICT = "TransactionConflictException"
KEYS = {
    each.name: (each.partition_key, *((each.sort_key,) if each.sort_key else ()))
    for each in names.TABLES
}
# The clauses of an update, and their effects on the marks in a reader's row.
CLAUSES = re.compile(r" (?=(?:SET|ADD|DELETE|REMOVE) #)")
HIDDEN = {
    "ADD": "a publisher hidden",
    "DELETE": "a publisher shown again",
    "REMOVE": "marks that have expired",
}
LANES = (names.EXPRESS.name, names.BULK.name)


def least(state: str, seeds: int) -> int:
    """How many of these runs must reach a state; 0 if all may miss it by chance."""
    expected = STATES[state] * seeds / 10_000
    return int(expected / PART) if expected >= EXPECTED else 0


def missing(runs: Mapping[str, int], seeds: int) -> Iterator[str]:
    """A sentence for each state that too few of the runs have reached."""
    for state in STATES:
        if runs.get(state, 0) < (wanted := least(state, seeds)):
            yield (
                f"'{state}' was reached in {runs.get(state, 0)} of {seeds} runs, and should be in "
                f"{wanted} at least: have worlds reach it, or nothing shows what happens then."
            )


def table(times: Mapping[str, int], runs: Mapping[str, int], seeds: int) -> str:
    """Each state: how often it was reached, in how many runs, and in how many it must be."""
    known = [*STATES, *sorted(times.keys() - STATES.keys())]
    width = max(len(state) for state in known)
    lines = [f"{'state':{width}}  {'times':>9}  {'runs':>7}  {'at least':>8}"]
    for state in known:
        wanted = least(state, seeds) if state in STATES else 0
        reached = f"{times.get(state, 0):>9,}  {runs.get(state, 0):>7,}"
        lines.append(f"{state:{width}}  {reached}  {wanted or '':>8}")
    return "\n".join(lines)


class Reached:
    """How often one run has reached each state."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.times: Counter[str] = Counter()
        self._writers: dict[Any, int] = {}  # the last task to change a row
        self._rows: dict[str, Any] = {}  # of the ledger, as each was last seen
        self._asked: set[tuple[int, str, str]] = set()  # entries that a task has looked for
        self._planners: dict[str, int] = {}  # the task that planned a fan-out
        self._hops: dict[str, set[int]] = {}  # by fan-out, tasks of PLAN that wrote its entries
        self._under_way: set[str] = set()  # fan-outs that PLAN is delivering itself
        self._handed_back: set[str] = set()  # and those that it left to a lane
        self._orders: dict[int, dict[str, Any]] = {}  # what a task of DELIVER has in hand
        self._channels = ReachedChannels(self.note, self._rows)
        self._at_work: Counter[tuple[str, int]] = Counter()  # tasks on each segment

    def note(self, state: str) -> None:
        """Count a state."""
        self.times[state] += 1

    # What workers take

    def begun(self, queue: names.Queue, messages: Iterable[Any], task: Task) -> None:
        """A worker begins to handle messages of a queue."""
        for message in messages:
            if contract.FIRST_SENT_AT in message.get("MessageAttributes", {}):
                self.note("redriven")
            if queue.name in LANES:
                order = content_of(message["Body"])
                if "segment" in order and not is_of_neighbours(order["fanout_id"]):
                    segment = order["fanout_id"], order["segment"]
                    self._at_work[segment] += 1
                    self._orders[task.number] = order
                    if self._at_work[segment] == 2:
                        self.note("two deliverers of a segment")

    def ended(self, task: Task) -> None:
        """A worker has ended."""
        if order := self._orders.pop(task.number, None):
            self._at_work[order["fanout_id"], order["segment"]] -= 1

    # What calls change

    def sending(self, content: Mapping[str, Any], task: Task) -> None:
        """An order is about to be sent."""
        if content["type"] == contract.SEGMENT_DELIVER and task.name.startswith(names.PLAN.name):
            planner = self._planners.get(content["fanout_id"])
            if planner != task.number:
                self.note("taken over: PLAN sends another's plan")

    def applied(self, operation: str, request: dict[str, Any], answer: Any, task: Task) -> None:
        """A call was applied."""
        self._channels.applied(operation, request, answer, task)
        match operation, request.get("TableName"):
            case "query", names.FOLLOWERS.name:
                if "LastEvaluatedKey" in answer:
                    self.note("more pages of followers")
            case "query", names.TIMELINES.name:
                if request.get("ConsistentRead") and not _is_of_channel(request):
                    self.note("a page is read a second time")
            case "batch_write_item", _:
                if task.name.startswith(names.RELATE.name):
                    self._filled(request, task)
                elif task.name.startswith(names.PLAN.name):
                    self._hopped(request, task)
                if answer.get("UnprocessedItems"):
                    self.note("unprocessed items")
            case "batch_get_item", _:
                self._read(request, answer, task)
            case "put_item" | "delete_item", names.FOLLOWERS.name:
                self._wrote(request, task)
                if task.name.startswith(names.RELATE.name):
                    verb = "put" if operation == "put_item" else "removed"
                    self.note(f"edge {verb} by RELATE")
            case "put_item", names.FANOUTS.name:
                self._wrote(request, task)
                self._rows[request["Item"]["fanout_id"]["S"]] = request["Item"]
                if "lane" in request["Item"]:
                    self.note("a message over the rate")
            case "put_item", _:
                self._wrote(request, task)
            case "update_item", names.POSTS.name:
                self._wrote(request, task)
                row = self._rows.get(request["Key"]["ref_id"]["S"])
                if row and row["state"]["S"] not in ENDED:
                    self.note("retracted during its delivery")
                if request["Key"]["ref_id"]["S"] in self._under_way:
                    self.note("one hop: retracted meanwhile")
            case "update_item", names.PUBLISHERS.name:
                if ":level" in request.get("ExpressionAttributeValues", {}):
                    self._wrote(request, task)
                    self.note("growth")
                    publisher = request["Key"]["publisher_id"]["S"]
                    rows = (self._rows.get(each, {}) for each in self._under_way)
                    if any(get_text(row, "publisher_id") == publisher for row in rows):
                        self.note("one hop: a growth meanwhile")
            case "update_item", names.FOLLOWING.name:
                self._wrote(request, task)
            case "transact_write_items", _:
                for each in request["TransactItems"]:
                    if "Update" in each:
                        self._wrote(each["Update"], task)
                        self._marked(each["Update"])

    def related(self, before: int, after: int, task: Task) -> None:
        """A relation was changed, as `oracle.follows` writes it."""
        if before % SHUT == WAITS and after % SHUT == FOLLOWS:
            by_relate = task.name.startswith(names.RELATE.name)
            self.note(f"a request {'opened by RELATE' if by_relate else 'approved or opened'}")
        elif after % SHUT == WAITS and before % SHUT == NONE:
            self.note("a blocked user asks" if after & SHUT else "a request waits")
        elif before % SHUT == WAITS and after % SHUT == NONE:
            self.note("a request ended")
        if after & SHUT and not before & SHUT:
            self.note("a block of a follower" if before % SHUT == FOLLOWS else "a block")
        elif before & SHUT and not after & SHUT:
            self.note("a block undone")

    def ledger_changed(self, request: dict[str, Any], row: dict[str, Any], task: Task) -> None:
        """A row of the ledger was updated to this one."""
        fanout_id = request["Key"]["fanout_id"]["S"]
        values = request.get("ExpressionAttributeValues", {})
        if fanout_id == MEMORY_ID:
            if values.get(":paused", {}).get("M"):
                self.note("SWEEP sees a paused queue")
            return
        if "state" not in row or is_of_neighbours(fanout_id):
            return
        before = self._rows.get(fanout_id, {"state": {"S": QUEUED}})
        self._rows[fanout_id] = row
        self._wrote(request, task)
        if {":segments", ":pending"} <= values.keys():
            self._planners[fanout_id] = task.number
        if ":came_out" in values and values[":came_out"] != before.get("came_out"):
            self.note("SWEEP's question answered")
        if task.name == "sweep":
            self._swept(values, row)
        elif task.name.startswith(names.DELIVER.name):
            self._delivered(values, before, row, task)
            if row["state"]["S"] == COMPLETE and fanout_id in self._handed_back:
                self._handed_back.discard(fanout_id)
                self.note("one hop: completed in a lane")
        elif task.name.startswith(names.PLAN.name):
            self._planned(fanout_id, values, row, task)
        self._moved(before["state"]["S"], row["state"]["S"], task)

    def _hopped(self, request: dict[str, Any], task: Task) -> None:
        """PLAN has written entries."""
        for put in request["RequestItems"].get(names.TIMELINES.name, ()):
            if is_channel(put["PutRequest"]["Item"]["user_id"]["S"]):
                continue
            ref_id = split_sort_key(put["PutRequest"]["Item"]["sort_key"]["S"])[1]
            hops = self._hops.setdefault(ref_id, set())
            if hops and task.number not in hops:
                self.note("one hop: another began it, too")
            hops.add(task.number)
            if self._rows.get(ref_id, {}).get("state") == {"S": QUEUED}:
                self._under_way.add(ref_id)

    def _planned(
        self, fanout_id: str, values: Mapping[str, Any], row: Mapping[str, Any], task: Task
    ) -> None:
        """PLAN has changed the row of a fan-out."""
        self._under_way.discard(fanout_id)
        if ":number" in values:
            self.note("one hop: finished after another's plan")
        elif {":segments", ":completed_at"} <= values.keys():
            is_empty = get_number(row, "followers") == 0
            self.note("nobody follows" if is_empty else f"one hop: by {self.world.transport}")
        elif ":pending" in values:
            resume = values[":resume"]["M"]
            has_begun = task.number in self._hops.get(fanout_id, ())
            if resume:
                self.note("one hop: handed back")
                self._handed_back.add(fanout_id)
                if resume["0"]["S"].count(".") > 1:
                    self.note("one hop: handed back with stragglers")
            elif has_begun:
                self.note("one hop: handed back without progress")
            elif get_number(row, "segments") == 1:
                self.note("one segment planned from its start")

    def _swept(self, values: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        if ":asks" in values:
            self.note("SWEEP asks PLAN" if row["state"]["S"] == QUEUED else "SWEEP asks a lane")
        if ":rounds" in values:
            self.note("a round of SWEEP")
            if get_number(row, "rounds") == MAX_ROUNDS:
                self.note("ten rounds of SWEEP")
        if values.get(":state") == {"S": COMPLETE}:
            self.note("completed by SWEEP")

    def _moved(self, before: str, after: str, task: Task) -> None:
        """Note a change of state."""
        if before == after:
            return
        if after in (STALLED, EXPIRED, ABANDONED):
            self.note(after)
        elif before == STALLED and after in (QUEUED, DELIVERING, COMPLETE):
            by_worker = task.name.startswith((names.PLAN.name, names.DELIVER.name))
            self.note(f"reopened by {'progress' if by_worker else 'an operator'}")

    def _delivered(
        self, values: Mapping[str, Any], before: Any, row: Mapping[str, Any], task: Task
    ) -> None:
        order = self._orders.get(task.number, {})
        number = str(order.get("segment", ""))
        stored = before.get("resume", {}).get("M", {}).get(number, {}).get("S", "")
        resume = values.get(f":resume_{number}")
        is_worked_on = resume or ":delivered" in values
        if is_worked_on and stored and order["position"] < stored.partition(".")[0]:
            self.note("taken over: DELIVER goes on from another's resume")
        if not resume:
            if values.keys() & {":changed_at"} and not values.keys() & {":asks", ":state"}:
                self.note("handed back without progress")
            return
        is_late = self.world.clock.elapsed >= task.deadline - HAND_BACK_SECONDS
        self.note("handed back as time ran out" if is_late else "handed back before")
        if resume["S"].count(".") > 1:
            self.note("handed back with stragglers")
        level = self.world.observer.levels.levels.get(row["publisher_id"]["S"], 0)
        if level > get_number(row, "level"):
            self.note("handed back above the plan's level")

    def _marked(self, update: Mapping[str, Any]) -> None:
        """Note how an update changes what hides publishers from a reader."""
        if update["TableName"] != names.READERS.name:
            return
        for clause in CLAUSES.split(update["UpdateExpression"]):
            verb, _, changed = clause.partition(" ")
            if "#hidden_" in changed:
                self.note(HIDDEN[verb])
            if "#verify_until" in changed:
                self.note("an unfollow without a mark")

    def _filled(self, request: dict[str, Any], task: Task) -> None:
        """Note entries that RELATE writes after a follow."""
        self.note("filled in after a follow")
        for put in request["RequestItems"].get(names.TIMELINES.name, ()):
            item = put["PutRequest"]["Item"]
            if (task.number, item["user_id"]["S"], item["sort_key"]["S"]) in self._asked:
                self.note("filled in by another pass")

    def _read(self, request: dict[str, Any], answer: Any, task: Task) -> None:
        if names.FOLLOWING.name in request["RequestItems"]:
            self.note("a reader's follows are verified")
        for key in request["RequestItems"].get(names.TIMELINES.name, {}).get("Keys", ()):
            self._asked.add((task.number, key["user_id"]["S"], key["sort_key"]["S"]))
        if answer.get("UnprocessedKeys"):
            self.note("unprocessed keys")
            if names.FANOUTS.name in request["RequestItems"] and task.name != "sweep":
                self.note("unprocessed keys of a lookup")
        asked = request["RequestItems"].get(names.POSTS.name)
        if asked is None:
            return
        found = answer["Responses"].get(names.POSTS.name, [])
        left = answer.get("UnprocessedKeys", {}).get(names.POSTS.name, {}).get("Keys", [])
        if len(found) + len(left) < len(asked["Keys"]):
            self.note("an entry whose post is gone")
        if any("deleted_at" in item for item in found):
            self.note("an entry whose post is retracted")

    def _wrote(self, request: Mapping[str, Any], task: Task) -> None:
        self._writers[_row_of(request)] = task.number

    # What is refused

    def rejected(self, request: dict[str, Any], error: ClientError, task: Task) -> None:
        """A call was refused, and had no effect."""
        self._channels.rejected(request, task, error)
        code = error.response["Error"]["Code"]
        if code == CANCELLED:
            reasons = [each.get("Code") for each in error.response["CancellationReasons"]]
            if "TransactionConflict" in reasons:
                self.note("a transaction in conflict")
            if "ConditionalCheckFailed" in reasons[:-1]:
                first = request["TransactItems"][reasons.index("ConditionalCheckFailed")]
                row = _row_of(first.get("Update") or first["ConditionCheck"])
                is_follow = row[0] == names.FOLLOWING.name
                self._contended("follow" if is_follow else "opening of a request", row, task)
        elif code == CONFLICT:
            self.note("an update in conflict")
        elif code == CONDITION:
            response: Any = error.response
            is_post = request["TableName"] == names.POSTS.name
            if is_post and "deleted_at" in response.get("Item", {}):
                self.note("a tombstone met")
            if request["TableName"] == names.READERS.name and "#marker" in str(request):
                self.note("an older marker")
            what = _what_of(request)
            if what == "edit" and "Item" not in response:
                self.note("an edit before its post")
            elif what:
                self._contended(what, _row_of(request), task)

    def _contended(self, what: str, row: Any, task: Task) -> None:
        """Count the refusal, unless it follows an own write whose answer was lost."""
        if self._writers.get(row) != task.number:
            self.note(f"contended: {what}")

    # What is left

    def at_the_end(self) -> None:
        """Count what is left behind."""
        for queue, message in self.world.dead_letters():
            if message.body not in self.world.noise:
                self.note(f"given up: a dead letter of {queue.name}")


def _row_of(request: Mapping[str, Any]) -> tuple[Any, ...]:
    """The table and the key of a row that a request changes."""
    table = request["TableName"]
    item = request.get("Key") or request["Item"]
    return (table, *(item[name]["S"] for name in KEYS[table]))


def _is_of_channel(query: Mapping[str, Any]) -> bool:
    """Whether a Query of the timelines reads a channel."""
    return is_channel(query["ExpressionAttributeValues"][":owner"]["S"])


def _what_of(request: Mapping[str, Any]) -> str:
    """The purpose of a refused request; empty for a count, which has its own refusals."""
    values = request.get("ExpressionAttributeValues", {})
    match request["TableName"]:
        case names.FOLLOWERS.name:
            return "edge put" if "Item" in request else "edge removed"
        case names.FOLLOWING.name:
            return "follow asked again"
        case names.POSTS.name:
            changes = "edit" if ":edited_at" in values else "retraction"
            return "publish key" if "Item" in request else changes
        case names.PUBLISHERS.name:
            is_growth = ":level" in values and request["Key"]["publisher_id"]["S"] != ALL
            return "growth" if is_growth else ""
        case names.FANOUTS.name:
            return "opening" if "Item" in request else _update_of(request, values)
    return ""


def _update_of(request: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """The purpose of a refused update of the ledger."""
    if any(name.startswith(":resume_") for name in values):
        return "resume"
    if ":segments" in values:
        return "plan" if ":pending" in values else "one hop"
    if ":delivered" in values:
        return "finish"
    if ":asks" in values:
        return "question"
    if ":rounds" in values:
        return "round"
    if ":state" in values:
        state: str = values[":state"]["S"]
        return {COMPLETE: "completion", STALLED: "giving up"}.get(state, state)
    return "answer" if ":as_read" in values else "touch"

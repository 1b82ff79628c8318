"""What PLAN may write itself: for few followers, for a short time, only on the first receive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanfold import names
from fanfold.fanout import plan, segment_size
from fanfold.ids import split_sort_key
from proof.simulation.faults.faults import MAX_SKEW_MS, SLOW_SECONDS

if TYPE_CHECKING:
    from proof.simulation.world.scheduler import Task
    from proof.simulation.world.world import World

RECEIVES = "ApproximateReceiveCount"
# Longer than a call takes that is not slow.
CALL_SECONDS = 0.05
# For posts that expire while PLAN handles them, or by another clock.
MARGIN_MS = MAX_SKEW_MS + 60_000


class OneHops:
    """PLAN's own deliveries in a run, observed call by call."""

    def __init__(self, world: World, violations: list[str]) -> None:
        self.world, self.violations = world, violations
        self._posts: dict[tuple[int, str], bool] = {}  # whether a task found the post there
        self._begun: dict[tuple[int, str], float] = {}
        self._users: dict[tuple[int, str], set[str]] = {}

    def read(self, request: dict[str, Any], answer: Any, task: Task) -> None:
        """PLAN has read rows of several tables, its first call for each message."""
        for key in request["RequestItems"].get(names.POSTS.name, {}).get("Keys", ()):
            hop = task.number, key["ref_id"]["S"]
            self._posts[hop] = False
            # A batch may hold two copies of a message.
            self._begun.pop(hop, None)
            self._users.pop(hop, None)
        for row in answer["Responses"].get(names.POSTS.name, ()):
            self._posts[task.number, row["ref_id"]["S"]] = "deleted_at" not in row

    def writing(self, request: dict[str, Any], task: Task) -> None:
        """PLAN is about to write entries."""
        now = self.world.scheduler.monotonic()  # which stands while the worker is frozen
        for put in request["RequestItems"][names.TIMELINES.name]:
            item = put["PutRequest"]["Item"]
            ref_id = split_sort_key(item["sort_key"]["S"])[1]
            hop = task.number, ref_id
            if hop not in self._begun:
                self._check_begun(ref_id, int(item["expires_at"]["N"]), task)
            users = self._users.setdefault(hop, set())
            users.add(item["user_id"]["S"])
            begun = self._begun.setdefault(hop, now)
            # A call that began at the last moment has its effect as it ends.
            slowest = SLOW_SECONDS if self.world.faults.rates["slow"] else CALL_SECONDS
            if now - begun > plan.ONE_HOP_SECONDS + slowest:
                self._add(f"PLAN writes entries of {ref_id} for {now - begun:.1f} s.")
            if len(users) > segment_size.SEGMENT_FOLLOWERS:
                self._add(f"PLAN writes more entries of {ref_id} than a segment has.")

    def _check_begun(self, ref_id: str, expires_at: int, task: Task) -> None:
        if self.world.clock.now_ms() > expires_at * 1000 + MARGIN_MS:
            self._add(f"PLAN writes entries of {ref_id}, which have expired.")
        received = [each for each in task.messages if f'"{ref_id}"' in each["Body"]]
        if all(each["Attributes"][RECEIVES] != "1" for each in received):
            self._add(f"PLAN writes entries of {ref_id}, whose message comes again.")
        if not self._posts.get((task.number, ref_id)):
            self._add(f"PLAN writes entries of {ref_id}, whose post it did not find.")

    def _add(self, violation: str) -> None:
        if violation not in self.violations:
            self.violations.append(violation)

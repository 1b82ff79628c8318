"""One run of the whole system: its tables, queues, faults, clock and course.

First, clients follow, publish, retract and read under faults. Then the faults end, and the run
continues until quiescence. Afterwards, `checks` compare the history of operations with the tables.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

from fanfold import names, times
from fanfold.doctor.findings import Report
from fanfold.fanout import plan
from fanfold.fanout.deliver import MAX_HOPS
from fanfold.rates import Rate
from fanfold.settings import Settings
from fanfold.sweep.silence import LONGEST_WAIT_SECONDS
from fanfold.timeline import marks
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.tables import Hooks
from proof.model.dynamodb.values import item_from_wire, item_to_wire
from proof.model.sqs import client as sqs
from proof.model.sqs.client import Queues
from proof.model.sqs.messages import Message
from proof.model.sqs.queues import Hooks as QueueHooks
from proof.simulation.clients.history import History
from proof.simulation.faults.damage import Damage
from proof.simulation.faults.faults import Faults, HotPartitions, crowd
from proof.simulation.observed.channels import ObservedChannels
from proof.simulation.observed.letters import Letters
from proof.simulation.observed.observers import Observer, pair_of
from proof.simulation.observed.reached import Reached
from proof.simulation.world.aws_clients import running
from proof.simulation.world.lambdas import dlq_url, lambdas
from proof.simulation.world.neighbours import is_of_neighbours
from proof.simulation.world.scheduler import Scheduler
from proof.simulation.world.schemas import schema_of
from proof.simulation.world.triggers import Triggers

if TYPE_CHECKING:
    from fanfold.audit.audit import Found
    from proof.simulation.faults.troubles import Trouble
    from proof.simulation.observed.cloudwatch import Watch

# A fan-out that lost orders during all faults may be resent only hours later, and a slow lane takes
# hours for its messages.
MAX_QUIESCENCE_SECONDS = 48 * 60 * 60.0
TRACE_LINES = 4_000
# The share of runs in which a publisher has more followers than one write shard takes.
CROWDED = 0.15
# The share of runs in a busy service.
BUSY = 0.2
# The share of runs with slow lanes, and how long they take for a message: longer than SWEEP waits.
SLOW = 0.06
SLOW_SECONDS = 480.0
# The share of runs at whose end every publisher posts again: as long as all other checks together.
LAST_POSTS = 0.5
# The share of runs in which users change their mind faster than clock skews and messages.
HASTY = 0.3
# The share of runs in which an operator abandons deliveries.
ENDED_BY_HAND = 0.15
# How many unfollows a reader's row has marks for, and how many mutes.
MAX_HIDDEN = (marks.MAX_HIDDEN, marks.MAX_HIDDEN, 1, 2)
MAX_MUTED = (marks.MAX_MUTED, marks.MAX_MUTED, marks.MAX_MUTED, 1)
# How long an index lags behind its table, at most.
MAX_INDEX_LAGS = (5.0, 5.0, 5.0, 0.0)
# How many of a publisher's newest posts a new follow brings.
BACKFILLS = (0, 2, 5)
# How many posts a publisher may publish at once, and in each minute.
PUBLISHES_PER_MINUTE = (Settings.publishes_per_minute,) * 3 + (2,)
# How many followers PLAN reads before it estimates: less and more than a segment has, which is 4.
SAMPLES = (2, 4, 4, 6)
# How long PLAN may write itself: in some runs, less than a few calls take.
ONE_HOP_SECONDS = (plan.ONE_HOP_SECONDS, plan.ONE_HOP_SECONDS, 0.02)
# How far the clock of API Gateway, which stamps requests, is ahead of that of SQS.
DOOR_SKEWS_MS = (0, -250, 250)
# The share of hasty runs in which messages are often copied, and how often: only copies of undone
# messages show whether the product recognizes them as late.
OFTEN_COPIED, COPIED = 0.5, 0.3
# After how many seconds the copy of a message comes, in a hasty run.
COPY_SECONDS = (0.0, 0.1, 1.0, 10.0)


@dataclass
class World:
    """One run."""

    seed: int
    transport: str = ""  # one of names.TRANSPORTS; by default the seed's
    clock: Clock = field(default_factory=Clock)
    history: History = field(default_factory=History)
    noise: set[str] = field(default_factory=set)  # bodies that belong in the dead-letter queue
    retention_days: int = Settings.retention_days
    longest_retention_days: int = 0  # the longest so far, as operators give it at each deploy
    may_be_busy: bool = True
    audited: list[Found] = field(default_factory=list)  # what audits have found meanwhile
    watch: Watch | None = None  # CloudWatch, in kinds with alarms
    story: str = ""  # of a steady world
    troubles: list[Trouble] = field(default_factory=list)  # that last for minutes or hours

    def __post_init__(self) -> None:
        # Turn, seconds, task, what and detail; formatted only when read.
        self._notes: deque[tuple[int, float, str, str, object]] = deque(maxlen=TRACE_LINES)
        self._clients = 0  # that are active
        self.random = Random(self.seed)
        # From a separate generator, so that the runs of a seed differ in nothing else.
        self.transport = self.transport or Random(f"{self.seed}").choice(names.TRANSPORTS)
        self.faults = Faults(
            Random(self.seed + 1),
            self.clock,
            Random(f"{self.seed} conflicts"),
            Random(f"{self.seed} apart"),
            Random(f"{self.seed} freezes"),
            Random(f"{self.seed} rare"),
            Random(f"{self.seed} impatience"),
        )
        self.scheduler = Scheduler(
            self.random,
            by_seed=True,
            clock=self.clock,
            crashes=lambda: self.faults.strikes("crashed"),
        )
        self.appeared_at = 0.0  # when all items of the last transaction have, in seconds
        self._create_tables()
        self._create_queues()
        self.triggers = Triggers(self)
        self.scheduler.sources.append(self.triggers)
        # In some runs DELIVER has hardly more time than it needs to hand back.
        self.time_pressure = self.random.choice((1.0, 1.0, 0.354, 0.3515))
        # In some runs, followers come faster than a write shard takes them.
        self.is_crowded = self.random.random() < CROWDED
        if self.is_crowded:
            self.meter.throttle = crowd(self.clock, self.random)
        # In some runs, each worker may write only a few entries a second, or retry only a few.
        self.worker_rate = self.random.choice((10_000.0, 10_000.0, 20.0, 2.0))
        self.retry_entries = self.random.choice((1_600, 1_600, 4))
        # From a separate generator, so that other runs stay as they were.
        self.hasty = Random(f"{self.seed} hasty")
        self.is_hasty = self.hasty.random() < HASTY
        self.door_skew_ms = self.hasty.choice(DOOR_SKEWS_MS) if self.is_hasty else 0
        if self.is_hasty and self.hasty.random() < OFTEN_COPIED:
            self.faults.rates["duplicated"] = COPIED
        # In some runs, a person ends deliveries; by id, whether that was surely done.
        self.ended_by_hand = Random(f"{self.seed} by hand")
        self.is_ended_by_hand = self.ended_by_hand.random() < ENDED_BY_HAND
        self.abandoned: dict[str, bool] = {}
        self.letters = Letters(self)
        self.damage = Damage()
        self.has_operators = False
        # In some runs, there is room for few marks, so that readers reach the bounds.
        marked = Random(f"{self.seed} marks")
        self.max_hidden = marked.choice(MAX_HIDDEN)
        self.max_muted = marked.choice(MAX_MUTED)
        self.backfill = marked.choice(BACKFILLS)
        # In some, publishers soon publish too fast.
        self.rate = Rate.a_minute(Random(f"{self.seed} rate").choice(PUBLISHES_PER_MINUTE))
        # In some, PLAN has few followers at hand, or hardly the time for one batch.
        one_hop = Random(f"{self.seed} one hop")
        self.sample_edges = one_hop.choice(SAMPLES)
        self.one_hop_seconds = one_hop.choice(ONE_HOP_SECONDS)
        # The product's values; some kinds of worlds change them.
        self.longest_wait_seconds, self.max_hops = LONGEST_WAIT_SECONDS, MAX_HOPS
        self.was_sent_again = False  # by an operator, after everything was repaired
        self.reached = Reached(self)
        # The doctor's last report, and its first in the calm.
        self.examined = self.first_examination = Report()
        self.queue_tags: dict[str, dict[str, str]] = {}  # by URL
        self.observer = Observer(self)
        # From a separate generator, so that the runs of a seed differ in nothing else.
        random = Random(f"{self.seed} around")
        self.is_busy = random.random() < BUSY and self.may_be_busy
        # In some runs, a lane takes so long for each message that waiting fan-outs seem silent.
        self.triggers.seconds_a_message = SLOW_SECONDS if random.random() < SLOW else 0.0
        self.has_last_posts = random.random() < LAST_POSTS
        # In half of the runs Lambda stops the monotonic clock of an environment that is idle.
        self.stops_idle_clocks = Random(f"{self.seed} idle").random() < 0.5
        # Whether publishers decide who may follow them; some kinds of worlds let them.
        self.has_audiences = False
        # None, except in worlds with channels.
        self.channels = ObservedChannels(Random(f"{self.seed} containers"))

    def _create_tables(self) -> None:
        # In some runs, indexes lag less.
        self.max_index_lag = Random(f"{self.seed} lags").choice(MAX_INDEX_LAGS)
        lags = (0.0, 0.0, 0.1, 5.0)
        hooks = Hooks(
            read_lag=lambda _table: self.random.choice(lags),
            index_lag=lambda _table, _index: min(self.random.choice(lags), self.max_index_lag),
            unprocessed=self.faults.unprocessed,
            shuffle=self.random.shuffle,
            appear=self._appear,
        )
        self.meter = HotPartitions(is_hot=self.faults.is_hot, injected=self.faults.injected)
        self.database = Database(self.clock, hooks, self.meter)
        self.database.create(*(schema_of(table) for table in names.TABLES))
        self.dynamodb = dynamodb.Client(self.database, validates=False)

    def _appear(self, steps: list[Callable[[], None]]) -> None:
        """Let the items of a transaction appear in any order, perhaps with gaps between them.

        The call is answered after the last one (`clients.call`); it continues if its caller dies.
        """
        gaps = self.faults.gaps(len(steps))
        if not any(gaps):
            for step in steps:
                step()
            return
        self.faults.apart.shuffle(steps)
        self.appeared_at = self.scheduler.now
        for gap, step in zip(gaps, steps, strict=True):
            self.appeared_at += gap
            self.scheduler.at(self.appeared_at, step)

    def _create_queues(self) -> None:
        hooks = QueueHooks(
            random=self.random,
            is_duplicated=lambda _random, _queue, message: self.faults.leaves_copy(message.id),
            copy_seconds=self._copy_seconds,
            late_seconds=lambda _queue, _message: self.faults.late_seconds(),
            fail=self.faults.unsent,
            sent=self._message_sent,
            ended=self._message_ended,
        )
        self.queues = Queues(self.clock, hooks)
        for queue in names.QUEUES:
            self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=queue.visibility_seconds,
            )
        self.sqs = sqs.Client(self.queues, validates=False)

    def _copy_seconds(self) -> float:
        return self.hasty.choice(COPY_SECONDS) if self.is_hasty else 0.0

    def _message_sent(self, queue: str, message: Message) -> None:
        self.history.sent(queue, message)
        self.letters.sent(queue, message)

    def _message_ended(self, _queue: str, message: Message, how: str) -> None:
        work = getattr(self.scheduler.current, "work", None)  # the scheduler itself has none
        self.history.ended(message, how, self.clock.now_ms(), work)

    def door_ms(self) -> int:
        """API Gateway's time stamp of a request."""
        return self.clock.now_ms() + self.door_skew_ms

    def client(self, service: str) -> Any:
        if service == "lambda":
            return self.triggers
        return self.dynamodb if service == "dynamodb" else self.sqs

    def note(self, what: str, detail: object = "") -> None:
        scheduler = self.scheduler
        task = scheduler.current.name
        self._notes.append((scheduler.turns, self.clock.elapsed, task, what, detail))

    @property
    def trace(self) -> list[str]:
        """The last lines of the notes."""
        return [
            f"{turn:6d} {seconds:10.3f} {task:24s} {what} {detail}"
            for turn, seconds, task, what, detail in self._notes
        ]

    def run(self, workload: Callable[[World], None]) -> None:
        """Start the clients of a workload under faults; then run without, until quiescence."""
        running.world = self
        lambdas().restart()
        try:
            workload(self)
            self.scheduler.run(until=lambda: not self._clients)
            self.faults.are_on = False
            end = self.scheduler.now + MAX_QUIESCENCE_SECONDS
            self.scheduler.run(until=lambda: self._is_quiescent() or self.scheduler.now > end)
        finally:
            del running.world

    def go_on(self, act: Callable[[], object]) -> None:
        """Have a client act after a finished run, in warm environments."""
        running.world = self
        try:
            self.start_client("afterwards", act)
            self.scheduler.run(until=lambda: not self._clients)
        finally:
            del running.world

    def start_client(self, name: str, act: Callable[[], object]) -> None:
        """Start a client; faults last until all clients have ended."""

        def act_and_end() -> None:
            try:
                act()
            finally:
                self._clients -= 1

        self._clients += 1
        self.scheduler.start(act_and_end, f"client {name}")

    def _is_quiescent(self) -> bool:
        if self.scheduler.tasks or not self.triggers.is_idle():
            return False
        return not self.open_fanouts()

    def rows(self, table: names.Table, having: str = "") -> list[dict[str, Any]]:
        """All items of a table, in DynamoDB's form; perhaps only those with an attribute."""
        rows = self.database.table(table.name).space.walk(
            after=None, segment=0, segments=1, moment=None
        )
        return [item_to_wire(row.item) for _, _, row in rows if not having or having in row.item]

    def open_fanouts(self) -> list[dict[str, Any]]:
        """The rows of the ledger that SWEEP watches, without those of neighbours."""
        return [
            row
            for row in self.rows(names.FANOUTS, having=names.OPEN.partition_key)
            if not is_of_neighbours(row["fanout_id"]["S"])
        ]

    def fanouts(self) -> list[dict[str, Any]]:
        """The rows of the ledger, without those of neighbours and that of SWEEP itself."""
        return [
            row
            for row in self.rows(names.FANOUTS)
            if "state" in row and not is_of_neighbours(row["fanout_id"]["S"])
        ]

    def row(self, table: names.Table, key: dict[str, Any]) -> dict[str, Any]:
        """One item, read consistently; empty if there is none."""
        stored = self.database.table(table.name)
        row = stored.get(stored.key_of(item_from_wire(key)))
        return item_to_wire(row.item) if row is not None else {}

    def edges(self) -> set[tuple[str, str]]:
        """The user and the publisher of each edge, at any level."""
        return {pair_of(row) for row in self.rows(names.FOLLOWERS)}

    def dead_letters(self) -> list[tuple[names.Queue, Message]]:
        """Every dead letter, with the queue whose consumer failed it."""
        return [
            (queue, message)
            for queue in names.QUEUES
            for message in self.queues.queue(dlq_url(queue)).messages()
        ]


def accepted_ms(row: dict[str, Any]) -> int:
    """When a post was accepted, in epoch milliseconds; 0 if the row does not say."""
    return times.to_ms(row["accepted_at"]["S"] or times.to_text(0))

"""The course of a run on a deployed stack: follow, publish, disturb, check, measure."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fanfold import clock, contract
from fanfold_cli.health.reading import queues
from fanfold_cli.run.people import FOLLOWS, People, relation, send
from fanfold_cli.run.record import Post, Request
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import Reading, judge
from fanfold_cli.run.watch import await_delivery
from fanfold_cli.terminal import ExpectedError, counted, failing_with, say
from fanfold_client import Failed
from proof.aws_verify import measures, troubles
from proof.aws_verify.forecast import Forecast
from proof.aws_verify.history import LOG_SECONDS, gaps, history_of
from proof.aws_verify.report import Report
from proof.aws_verify.script import DOORS, HTTP, Script
from proof.aws_verify.watch import SAMPLE, Sampled, await_follows
from proof.history.judge import judge as judge_history

# The longest wait without progress. A failed message is received again after six minutes, and SWEEP
# resends a silent fan-out after seven.
PATIENCE_SECONDS = 20 * 60.0


@dataclass
class Course:
    people: People
    stack: str
    script: Script
    report: Report
    # How long each trouble lasts, and for how long nothing may progress, in seconds.
    hold: float = 60.0
    patience: float = PATIENCE_SECONDS
    followers: dict[str, frozenset[str]] = field(default_factory=dict)  # by publisher, as of now

    def __post_init__(self) -> None:
        self.deployment, self.record = self.people.deployment, self.people.record

    def run(self, forecast: Forecast) -> None:
        """Do everything; the report has all results so far, even if this raises an error."""
        began = datetime.now(UTC)
        self.report.sections |= {"posts": [], "troubles": []}
        with self._timed("follow_seconds"):
            self._follow()
        with self._timed("publish_seconds"):
            self._publish()
        self._leave()
        with self._timed("trouble_seconds"):
            self._disturb()
        written = self._check_rows()
        self._check_history(self._check_timelines())
        self._check_dead_letters()
        self._measure(began, written, forecast)
        self.report.sections["run"]["repeated_requests"] = self.people.repeated

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.report.sections["run"][name] = round(time.monotonic() - began, 1)

    def _follow(self) -> None:
        """Readers follow over HTTP, all others by `follow.added` messages of another service."""
        self.followers, readers = self.script.followers(), self.script.readers
        for user in readers:
            for publisher in self.followers:
                self._want(user, publisher, True)
        others = {by: users.difference(readers) for by, users in self.followers.items()}
        begun = time.time()
        pairs = ((user, by) for by, users in others.items() for user in sorted(users))
        send(self.people.queue, *relation(contract.FOLLOW_ADDED, pairs))
        by_http = len(readers) * len(others)
        by_queue = sum(map(len, others.values()))
        self.report.sections["run"]["follows"] = (
            f"{by_http:,} by HTTP with tokens, {by_queue:,} by follow.added on the queue"
        )
        await_follows(self.people, self.followers, patience=self.patience)
        self.record.follow_all(others, begun, time.time())

    def _want(self, user: str, publisher: str, wanted: bool) -> None:
        with failing_with(f"{user} cannot (un)follow {publisher}", Failed):
            self.people.want(FOLLOWS, user, publisher, wanted)

    def _publish(self) -> None:
        """Publish a post of each publisher over HTTP and by the queue, each requested twice."""
        for size in self.script.sizes:
            for door in DOORS:
                watched = self._watched(size, door)
                say(f"Published to {counted(size, 'follower')} by {door}.")
                self._await([watched])
                self.report.sections["posts"].append({"door": door, **watched.result()})

    def _watched(self, size: int, door: str) -> Sampled:
        """Publish a post twice, as if the first answer had been lost, and watch it."""
        began, publisher = clock.monotonic(), self.script.publisher(size)
        number = len(self.record.posts) + 1
        body = {"title": f"Post {number} by {door}"}
        if door == HTTP:
            post, again = (self._by_http(publisher, body, number) for _ in range(2))
            if post.key != again.key:
                raise ExpectedError(
                    "The same Idempotency-Key was answered with another ref_id or time: "
                    f"{post.key} and then {again.key}."
                )
        else:
            ref_id = f"{self.script.prefix}post-{number}"
            post = self.people.draft(publisher, body, ref_id=ref_id)
            self.people.send(post, post)
        return Sampled.of(post, self.followers[publisher], began)

    def _by_http(self, publisher: str, body: dict[str, str], number: int) -> Post:
        with failing_with(f"{publisher} cannot publish", Failed):
            return self.people.publish(publisher, body, key=f"{self.script.prefix}{number}")

    def _await(self, watched: Sequence[Sampled]) -> None:
        late = await_delivery(self.people, watched, patience=self.patience)
        self._fail([each.late() for each in late])

    def _leave(self) -> None:
        """Two users unfollow everybody: one over HTTP, and one by the queue."""
        by_http, by_queue = self.script.leavers
        pairs = [(by_queue, publisher) for publisher in self.followers if by_queue != by_http]
        for publisher in self.followers:
            self._want(by_http, publisher, False)
            self.followers[publisher] -= {by_http, by_queue}
        begun = time.time()
        send(self.people.queue, *relation(contract.FOLLOW_REMOVED, pairs))
        await_follows(self.people, self.followers, patience=self.patience)
        for pair in pairs:
            self.record.follows[pair].append(Request(False, begun, time.time()))

    def _disturb(self) -> None:
        """Publish while something is switched off or throttled, and check that it arrives later."""
        for trouble in troubles.of(self.deployment):
            if trouble.not_here:
                self.report.skip(f"publishing while {trouble.what}", trouble.not_here)
                continue
            say(f"Publishing while {trouble.what}.")
            with trouble.applied(self.deployment):
                watched = [self._watched(size, HTTP) for size in self.script.troubled]
                troubles.hold(self.hold)
                early = [each.look(self.people) for each in watched]
            self._await(watched)
            for each, arrived in zip(watched, early, strict=True):
                meanwhile = f"{arrived} of {min(SAMPLE, each.followers)}"
                self.report.sections["troubles"].append(
                    {"while": trouble.what, "of_the_sample_meanwhile": meanwhile, **each.result()}
                )

    def _check_rows(self) -> int:
        """Compare every row with the record; return how many are expected."""
        # The engine's tables also hold rows of earlier runs and other users.
        is_shared = self.deployment.is_local
        sent = sum(len(self.followers[post.publisher]) for post in self.record.posts.values())
        verdict = judge(
            self.record,
            rows=rows(self.deployment, total=sent),
            ours=self.script.prefix if is_shared else "",
        )
        self._fail(verdict.failures)
        self.report.sections["rows"] = {
            "expected": verdict.expected,
            "right": verdict.right,
            **verdict.faults,
        }
        return verdict.expected

    def _check_timelines(self) -> list[Reading]:
        """Read the timelines of users who can sign in, and of a publisher who follows nobody."""
        users = [*self.script.readers, self.script.publisher(min(self.script.sizes))]
        with failing_with("A timeline cannot be read", Failed):
            readings = [self.people.read(user, hydrate=True) for user in users]
        self._fail(judge(self.record, readings).failures)
        self.report.sections["reads"] = [
            {"user": each.reader, "seen": len(each.entries)} for each in readings
        ]
        return readings

    def _check_history(self, readings: list[Reading]) -> None:
        """Hold the stack's own history against the promise, if it tells all that was answered."""
        if not self.deployment.is_local:
            clock.sleep(LOG_SECONDS)
        try:
            told = history_of(self.deployment, self.stack)
        except Exception as error:  # noqa: BLE001 - what was checked must not be lost over this
            self.report.skip("the history", f"it cannot be read: {error}")
            return
        if self.deployment.is_local and not told.pages:
            self.report.skip("the history", "this stack was deployed without history=true")
            return
        stage = self.deployment.settings().timelines_table
        if lost := gaps(told, stage, self.record, readings):
            self._fail(lost)
            return
        # A stack of this run has nothing from before; the local engine's may have.
        judged = judge_history(told, is_whole=not self.deployment.is_local)
        self._fail([str(each) for each in judged.findings])
        self.report.sections["history"] = dict(judged.counts)

    def _check_dead_letters(self) -> None:
        depths = queues(self.deployment)
        letters = {queue: depth.dead for queue, depth in depths.items()}
        self.report.sections["dead_letters"] = letters
        if self.deployment.is_local:
            self.report.skip(
                "whether the dead-letter queues are empty",
                "the local engine's may hold letters of others; the report counts them",
            )
        elif any(letters.values()):
            found = ", ".join(f"{count} of {queue}" for queue, count in letters.items() if count)
            self._fail([f"There are dead letters: {found}."])

    def _measure(self, began: datetime, rows: int, forecast: Forecast) -> None:
        if self.deployment.is_local:
            self.report.skip(
                "throttles, consumed units, function errors and cost, by CloudWatch",
                "the local engine counts none of them",
            )
            return
        try:
            asked, memory = measures.queries(self.deployment, self.stack)
            sums, complete = measures.read(self.deployment, asked, began=began, rows=rows)
            writes = next(each for each in asked if each.metric == measures.WRITES)
            fills = (
                measures.fills_what_never_was(self.deployment, writes, began=began)
                if complete
                else None
            )
        except Exception as error:  # noqa: BLE001 - what was checked must not be lost over this
            self.report.skip("what CloudWatch has counted", f"it cannot be read: {error}")
            return
        self.report.sections["measured"] = {
            "complete": complete,
            "alarms_hear_a_sum_with_a_metric_that_never_was": fills,
            "write_units_forecast": forecast.write_units,
            "dynamodb_dollars_forecast": forecast.dynamodb_dollars,
            "lambda_dollars_forecast": forecast.lambda_dollars,
            **measures.result(sums, memory),
        }

    def _fail(self, sentences: list[str]) -> None:
        for sentence in sentences:
            say(f"FAILED: {sentence}")
        self.report.failures += sentences

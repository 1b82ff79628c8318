"""The course of a run on a deployed stack: follow, publish, disturb, check, measure."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fanfold import contract, names
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import counted, say
from proof.aws_verify import measures, tables, troubles, watch
from proof.aws_verify.forecast import Forecast
from proof.aws_verify.people import People
from proof.aws_verify.report import Report
from proof.aws_verify.script import DOORS, HTTP, Post, Record
from proof.aws_verify.verdict import judge
from proof.aws_verify.watch import Watched


@dataclass(frozen=True)
class Course:
    deployment: Deployment
    stack: str
    record: Record
    report: Report
    # How long each trouble lasts, and for how long nothing may progress, in seconds.
    hold: float = 60.0
    patience: float = watch.PATIENCE_SECONDS

    def run(self, forecast: Forecast) -> None:
        """Do all of it; the report has every result, also if this raises an error."""
        began = datetime.now(UTC)
        people = People(self.deployment, self.record)
        self.report.sections["posts"] = []
        self.report.sections["troubles"] = []
        with self._timed("follow_seconds"):
            self._follow(people)
        with self._timed("publish_seconds"):
            self._publish(people)
        self._leave(people)
        with self._timed("trouble_seconds"):
            self._disturb(people)
        rows = self._check_rows()
        self._check_timelines(people)
        self._check_dead_letters()
        self._measure(began, rows, forecast)
        self.report.sections["run"]["repeated_requests"] = people.repeated

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.report.sections["run"][name] = round(time.monotonic() - began, 1)

    def _follow(self, people: People) -> None:
        """Readers follow over HTTP, everybody else by `follow.added`, as another service asks."""
        wanted, readers = self.record.wanted(), self.record.readers
        for user in readers:
            for publisher in wanted:
                people.follow(user, publisher)
        people.send(
            *(
                {"type": contract.FOLLOW_ADDED, "user_id": user, "publisher_id": publisher}
                for publisher, users in wanted.items()
                for user in sorted(users.difference(readers))
            )
        )
        self.record.follows = wanted
        by_http = len(readers) * len(wanted)
        total = sum(map(len, wanted.values()))
        self.report.sections["run"]["follows"] = (
            f"{by_http:,} by HTTP with tokens, {total - by_http:,} by follow.added on the queue"
        )
        watch.await_follows(people, patience=self.patience)

    def _publish(self, people: People) -> None:
        """One post of each publisher by each door, one after the other, each asked for twice."""
        for size in self.record.sizes:
            for door in DOORS:
                began = time.monotonic()
                post = people.publish(self.record.publisher(size), door)
                say(f"Published to {counted(size, 'follower')} by {door}.")
                watched = [Watched.of(post, began)]
                self._fail(watch.watch(people, watched, patience=self.patience))
                self.report.sections["posts"].append(watched[0].result())

    def _leave(self, people: People) -> None:
        """Two users unfollow everybody: one over HTTP, and one by the queue."""
        by_http, by_queue = self.record.readers[-1], self.record.user(min(self.record.sizes) - 1)
        publishers = list(self.record.follows)
        for publisher in publishers:
            people.unfollow(by_http, publisher)
            self.record.unfollow(by_http, publisher)
        if by_queue != by_http:
            event = {"type": contract.FOLLOW_REMOVED, "user_id": by_queue}
            people.send(*({**event, "publisher_id": publisher} for publisher in publishers))
            for publisher in publishers:
                self.record.unfollow(by_queue, publisher)
        watch.await_follows(people, patience=self.patience)

    def _disturb(self, people: People) -> None:
        """Publish while something is switched off or throttled, and see that it arrives then."""
        for trouble in troubles.of(self.deployment):
            if trouble.not_here:
                self.report.skip(f"publishing while {trouble.what}", trouble.not_here)
                continue
            say(f"Publishing while {trouble.what}.")
            with trouble.applied(self.deployment):
                watched = [self._publish_one(people, size) for size in self.record.troubled]
                troubles.hold(self.hold)
                early = [each.look(people) for each in watched]
            self._fail(watch.watch(people, watched, patience=self.patience))
            for each, arrived in zip(watched, early, strict=True):
                meanwhile = f"{arrived} of {min(watch.SAMPLE, len(each.post.followers))}"
                self.report.sections["troubles"].append(
                    {"while": trouble.what, "of_the_sample_meanwhile": meanwhile, **each.result()}
                )

    def _publish_one(self, people: People, size: int) -> Watched:
        began = time.monotonic()
        return Watched.of(people.publish(self.record.publisher(size), HTTP), began)

    def _check_rows(self) -> int:
        """Compare every row with the record; returns how many are expected."""
        total = sum(len(post.followers) for post in self.record.posts.values())
        verdict = judge(
            self.record.posts,
            # The engine's tables hold the rows of earlier runs and of others, too.
            tables.rows(self.deployment, total=None if self.deployment.is_local else total),
            # On a stage of its own every row counts.
            prefix=self.record.prefix if self.deployment.is_local else "",
        )
        self._fail(list(verdict.failures()))
        self.report.sections["rows"] = {
            "expected": verdict.expected,
            "right": verdict.right,
            **verdict.faults,
        }
        return total

    def _check_timelines(self, people: People) -> None:
        """Read the timelines of those who can sign in, and of a publisher who follows nobody."""
        reads = []
        for user in [*self.record.readers, self.record.publisher(min(self.record.sizes))]:
            wanted = [shown(post) for post in self.record.timeline(user)]
            seen = [
                (each["ref_id"], each["publisher_id"], each["published_at"], each["body"])
                for each in people.timeline(user)
            ]
            reads.append({"user": user, "wanted": len(wanted), "seen": len(seen)})
            if seen != wanted:
                self._fail([_unlike(user, seen, wanted)])
        self.report.sections["reads"] = reads

    def _check_dead_letters(self) -> None:
        sqs, letters = self.deployment.client("sqs"), {}
        for queue in names.QUEUES:
            answer = sqs.get_queue_attributes(
                QueueUrl=self.deployment.output(queue.dlq_url_output),
                AttributeNames=["ApproximateNumberOfMessages"],
            )
            letters[queue.name.lower()] = int(answer["Attributes"]["ApproximateNumberOfMessages"])
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


def shown(post: Post) -> tuple[str, str, str, Any]:
    """What a page of a timeline shows of the post."""
    return post.ref_id, post.publisher, post.published_at, {"title": post.title}


def _unlike(user: str, seen: list[Any], wanted: list[Any]) -> str:
    lacks = [each[0] for each in wanted if each not in seen]
    surplus = [each[0] for each in seen if each not in wanted]
    return (
        f"The timeline of {user} over HTTP is not what it must be, newest first: of {len(wanted)} "
        f"posts {lacks or 'none'} are missing or different, and {surplus or 'none'} are too many."
    )

"""The stage of `fanfold demo --hurt`: an engine, workers, faults, and the page's buttons."""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections import Counter
from dataclasses import replace

from fanfold import clock
from fanfold.errors import FanfoldError
from fanfold.fanout.row import ENDED
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold_cli.console import rings
from fanfold_cli.console.server import Content, WrongRequest
from fanfold_cli.console.views import GOOD, HEAL, HURT, INFO, Hurting, State, Verdict
from fanfold_cli.console.watching import Movement, Refreshing, Story, first_state, reader_of
from fanfold_cli.deliveries import fanouts
from fanfold_cli.follows.graph import Graph
from fanfold_cli.health.reading import queues
from fanfold_cli.health.verdict import Depth
from fanfold_cli.progress import waiting_for
from fanfold_cli.run.demo import publish
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import judge
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, failing_with
from fanfold_client import Failed
from proof.hurt import counting
from proof.hurt.meter import Meter, cell_of
from proof.hurt.pool import SHOWN_AFTER, Pool
from proof.simulation import worker_processes

# The visibility timeout of the demo's queues: shorter than six minutes, for people who watch, but
# longer than a segment takes, so that nobody takes it over from its worker.
HIDDEN_SECONDS = 60
# Readers on the page follow at most this many publishers.
MOST_FOLLOWS = 3


class Stage:
    """What buttons and script can do, and what the page shows of it."""

    def __init__(self, deployment: Deployment, graph: Graph, meter: Meter) -> None:
        self.people, self.graph, self.meter = People(deployment), graph, meter
        now = time.time()  # the edges are loaded
        self.people.record.follow_all(graph.followers, now, now)
        self.pool: Pool
        self.story = Story()
        first = first_state(deployment, may_operate=False)
        self.shown = Refreshing(first, self._read, self._look_up, self.story)
        self.is_scripted, self.act_name, self.has_ended = True, "", False
        self.is_count_wanted = False
        self.verdict: Verdict | None = None
        self._ended: set[str] = set()  # posts of any publish
        self._published_at = 0.0  # when the last publish ended; infinite during one
        self._movement = Movement()
        self._readers = [reader_of(deployment, user) for user in some_readers(graph)]
        self._wanted = {by: Counter(map(cell_of, users)) for by, users in graph.followers.items()}
        self._publishing, self._began = threading.Lock(), clock.monotonic()
        self._tag, self._rounds = f"hurt-{secrets.token_hex(3)}", 0

    def use(self, pool: Pool) -> None:
        self.pool = pool
        pool.publishers = self._publisher_of

    def _publisher_of(self, ref_id: str) -> str:
        post = self.posts.get(ref_id)
        return post.publisher if post else ""

    @property
    def posts(self) -> dict[str, Post]:
        return self.people.record.posts

    # What may be done

    def publish(self) -> None:
        """Publish a post of each publisher, by HTTP and by queue.

        Raises `ExpectedError` once the rows are to be counted: nothing may change then.
        """
        with self._publishing:
            self._published_at = math.inf  # before the check whether the rows are to be counted
            try:
                if self.is_count_wanted:
                    raise ExpectedError("Nothing was published: the rows are about to be counted.")
                count = self._publish()
            finally:
                self._published_at = clock.now_ms() / 1000
        self.story.add(INFO, f"{counted(count, 'post')} published.")

    def _publish(self) -> int:
        self._rounds += 1
        before = len(self.posts)
        if not before:
            self._began = clock.monotonic()
        publish(self.people, self.graph, tag=f"{self._tag}-{self._rounds}")
        return len(self.posts) - before

    @property
    def _latest(self) -> list[str]:
        """The last accepted post of each publisher, the largest first.

        A delivery may be over before the last post of the same publish is sent.
        """
        return list({post.publisher: post.ref_id for post in list(self.posts.values())}.values())

    def kill(self) -> None:
        """Kill a worker; raises `ExpectedError` if none has a segment."""
        self.pool.kill(next(iter(self._latest), ""))

    def throttle(self, on: bool) -> None:
        if on != self.meter.is_throttled:
            self.meter.throttle(on)
            words = "The table refuses 40 % of the batches." if on else "The table accepts all."
            self.story.add(HURT if on else HEAL, words)

    def twice(self, on: bool) -> None:
        if on != self.pool.twice:
            self.pool.set_twice(on)
            words = "Every message is sent twice." if on else "Messages are sent only once."
            self.story.add(HURT if on else HEAL, words)

    def want_count(self) -> None:
        """Allow no more publishes; open deliveries finish before the count."""
        self.is_count_wanted = True

    def act(self, content: Content) -> Content:
        """Do what a button says, and end the script."""
        if self.has_ended:
            raise ExpectedError("The demo has ended.")
        what, on = content.get("what"), content.get("on")
        if what in ("throttle", "twice") and not isinstance(on, bool):
            raise WrongRequest(f"'on' must be true or false, not {on!r:.100}.")
        acts = {
            "publish": self.publish,
            "kill": self.kill,
            "throttle": lambda: self.throttle(bool(on)),
            "twice": lambda: self.twice(bool(on)),
            "count": self.want_count,
        }
        if not isinstance(what, str) or what not in acts:
            raise WrongRequest("There is no such button.")
        self.is_scripted = False
        try:
            with failing_with("That did not work; try it again", Failed, FanfoldError):
                acts[what]()
        except ExpectedError as error:
            self.story.add(INFO, str(error))
            raise
        return {}

    # What is seen

    @property
    def share(self) -> float:
        """How much of the largest post of the last publish has passed by now."""
        largest = next(iter(self._latest), "")
        if not largest:
            return 0.0
        return self.meter.passed(largest) / self._wanted[self.posts[largest].publisher].total()

    @property
    def is_at_rest(self) -> bool:
        """Whether every post is delivered and the queues are empty.

        This uses a state that was read after the last publish.
        """
        state = self.shown.current()
        if state.read_at < self._published_at:
            return False
        lanes = [state.queues.get(queue.name.lower(), Depth()) for queue in worker_processes.QUEUES]
        return not state.open and not any(depth.owed for depth in lanes)

    def count(self) -> Verdict:
        """Compare all rows and readers' pages with the graph and the accepted posts."""
        took = clock.monotonic() - self._began
        self.act_name = "Every row is counted."
        with waiting_for("all rows to be counted"):
            for post in self.posts.values():
                self.people.delivery(post)
            self.verdict = counting.view(
                judge(
                    self.people.record,
                    [self.people.read(reader.user) for reader in self._readers],
                    rows=rows(self.people.deployment),
                ),
                seconds=took,
                killed=self.pool.killed,
                refused=self.meter.refused,
                copies=self.pool.copies,
            )
        self.has_ended, self.act_name = True, ""
        self.story.add(GOOD if self.verdict.is_right else HURT, self.verdict.sentence)
        return self.verdict

    def _read(self, before: State) -> State:
        began = clock.now_ms() / 1000
        # Read before the ledger, so that a worker that just finished does not look dead.
        workers = self.pool.views()
        latest, posts = self._latest, list(self.posts)
        asked = list(dict.fromkeys((*latest, *(each for each in posts if each not in self._ended))))
        ledger = self.people.deployment.stores().ledger
        found = fanouts.rows_of(OpenFanouts(ledger.client, ledger.table), asked)
        rows = {row.fanout_id: row for row in found}
        self._ended |= {row.fanout_id for row in rows.values() if row.state in ENDED}
        views = [
            self.meter.filled(rings.view(rows[ref_id]), self._wanted[self.posts[ref_id].publisher])
            for ref_id in latest
            if ref_id in rows
        ]
        self._movement.see(clock.monotonic(), {each.ref_id: each.delivered for each in views})
        others = [
            replace(each, have=(), again=(), refused=(), is_largest=False) for each in views[1:]
        ]
        # A post by queue has no row until PLAN has accepted it.
        count = len(set(posts) - self._ended)
        return replace(
            before,
            read_at=began,
            failure="",
            ring=views[0] if views else None,
            others=tuple(others),
            open=count,
            rate=self._movement.rate,
            queues=queues(self.people.deployment),
            workers=workers,
            readers=tuple(reader.view() for reader in self._readers),
            still_seconds=clock.monotonic() - self._movement.moved_at if count else 0.0,
            hurting=self._hurting(),
            verdict=self.verdict,
        )

    def _look_up(self) -> None:
        for reader in self._readers:
            reader.look()

    def _hurting(self) -> Hurting:
        graph = self.graph
        # An entry for each follower of each post; the ring beside it counts those of one post.
        posts = counted(len(graph.followers), "post")
        entries = counted(graph.edges, "entry", "entries")
        return Hurting(
            throttled=self.meter.is_throttled,
            twice=self.pool.twice,
            killed=self.pool.killed,
            refused=self.meter.refused,
            copies=self.pool.copies,
            rewritten=self.meter.rewritten,
            shown_after=SHOWN_AFTER,
            hidden_for=HIDDEN_SECONDS,
            is_scripted=self.is_scripted,
            act=self.act_name,
            publishes=f"{posts}, {entries}",
            has_ended=self.has_ended,
        )


def some_readers(graph: Graph) -> list[str]:
    """Three followers of the largest publisher whose timelines few other posts enter."""
    follows, followers = graph.follows, graph.followers[graph.largest()[0]]
    users = sorted(followers, key=lambda user: (-len(follows[user]), user))
    few = [user for user in users if len(follows[user]) <= MOST_FOLLOWS] or users
    return list(dict.fromkeys([few[0], few[len(few) // 8], few[-1]]))

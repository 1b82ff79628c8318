"""Load a follow graph into a stack, by the use cases of the product."""

import shlex
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names
from fanfold.aws.items import MAX_KEYS
from fanfold.aws.queues import MAX_BATCH, WorkQueue
from fanfold.channels.known_head import KnownHead
from fanfold.errors import FanfoldError, TooManyFollows, TryLater, Unsent
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.follows.edges import Edges
from fanfold.follows.follow import Following
from fanfold.follows.levels import Growing, Levels, Notify
from fanfold.follows.relation import Follow
from fanfold.follows.sharding import NotGrown, Shards
from fanfold.messages import BackfillRelation
from fanfold.stores import Stores
from fanfold_cli.cost.follow import ORDERS_PER_WORKER, FirstFollow
from fanfold_cli.follows.graph import Graph
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    WrongValue,
    counted,
    dollars,
    duration,
    failing_with,
    interrupted_with,
    say,
)

T = TypeVar("T")

# Users at a time. With more threads the engine is the bottleneck, with fewer the network.
THREADS = 8
# A publisher grows within about 20 s. An import waits for that, or for the throttled table if the
# publisher cannot grow; the API would answer `TryLater`.
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 1.0
# The share of RELATE's capacity; the rest is for users who follow meanwhile.
BACKFILL_SHARE = 0.8
# Older posts that cost more, in dollars, need a confirmation.
UNASKED = 1.0
# An error names at most this many users above the limit.
NAMED = 5


class PatientEdges(Edges):
    """Edges whose calls wait while a table throttles them, and raise `TryLater` after a minute.

    Batches need no override: these methods write what batches leave unprocessed.
    """

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        _retry(lambda: Edges.put(self, publisher_id, follower_id, version=version))

    def versions(self, edges: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        return _retry(lambda: Edges.versions(self, edges))

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> bool:
        return _retry(lambda: Edges.ensure(self, publisher_id, follower_id, version=version))


def _retry(write: Callable[[], T]) -> T:
    end = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return write()
        except TryLater:
            if clock.monotonic() >= end:
                raise
        clock.sleep(PAUSE_SECONDS)


def seed(
    deployment: Deployment,
    graph: Graph,
    *,
    again: bool = False,
    leave: Callable[[Follow], None] = lambda _row: None,
) -> int:
    """Write every follow of the graph; return how many are new.

    A follow that is in effect is not written. One that has ended is passed to `leave`,
    unless it is to be followed `again`. Users who would exceed the limit of follows do not stop the
    import: when the others are loaded, an error names them.
    """
    with failing_with("The settings of the stage cannot be read, so nothing was loaded"):
        own = following(deployment, report_growth)
    bulk = BulkFollowing(own, again, leave)
    follows = graph.follows
    new = 0
    stop, beyond = threading.Event(), list[str]()

    def follow(user: str, publishers: Sequence[str]) -> int:
        if stop.is_set():
            return 0
        try:
            return bulk.follow_all(user, publishers)
        except TooManyFollows:
            beyond.append(user)
            return 0

    def load(users: Sequence[str]) -> tuple[int, int]:
        pairs = [(user, publisher) for user in users for publisher in follows[user]]
        left = defaultdict(list)
        for start in range(0, len(pairs), MAX_KEYS):
            some = pairs[start : start + MAX_KEYS]
            done = set() if stop.is_set() else bulk.in_effect(some)
            for user, publisher in some:
                if (user, publisher) not in done:
                    left[user].append(publisher)
        return sum(follow(user, left[user]) for user in left), len(pairs)

    with (
        progress_bar("Following", total=graph.edges, unit="follows") as bar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        try:
            for changed, edges in threads.map(load, _together(follows)):
                new += changed
                bar.advance(edges)
        except (FanfoldError, ClientError, BotoCoreError) as error:
            reason = f"{error} {error.__cause__ or ''}".rstrip()
            stays = "Run it again: follows that were loaded stay."
            if deployment.has_ended():
                stays = (
                    "The local engine has ended, and what was loaded is lost with it: run "
                    f"{deployment.up_command}, and then this again."
                )
            raise ExpectedError(f"The import stopped. {stays} {reason}") from error
        finally:
            stop.set()
    if beyond:
        raise ExpectedError(_too_many(sorted(beyond), follows, own.max_follows, new))
    return new


@dataclass(frozen=True)
class Backfill:
    """What bringing older posts to these follows takes, by the settings of the stage."""

    follows: int
    posts: int  # of each follow, at most
    rate: float  # follows a second that RELATE keeps up with, besides those of users

    @classmethod
    def of(cls, deployment: Deployment, follows: int) -> "Backfill":
        """Raises `ExpectedError` if the stage brings no older posts."""
        with failing_with("The settings of the stage cannot be read, so nothing was loaded"):
            settings = deployment.run_time_settings()
            scaling = deployment.event_source_mapping(names.RELATION).get("ScalingConfig", {})
        if not settings.backfill:
            raise ExpectedError(
                "This stage brings no older posts, so nothing was loaded: leave --backfill out, or "
                "deploy with -c backfill=, up to 30."
            )
        workers = scaling.get("MaximumConcurrency", 1)
        by_share = workers * settings.relation_worker_rate / settings.backfill
        rate = BACKFILL_SHARE * min(by_share, workers * ORDERS_PER_WORKER)
        return cls(follows, settings.backfill, rate)

    @property
    def price(self) -> float:
        """In dollars, at most."""
        return self.follows * FirstFollow.bringing(self.posts).backfill_dollars

    @property
    def sentence(self) -> str:
        return (
            f"{counted(self.follows, 'follow')} bring up to {counted(self.posts, 'older post')} "
            f"each, which takes {duration(self.follows / self.rate)} once they are loaded, and "
            f"{dollars(self.price)} at most."
        )


def in_order(graph: Graph, since: str | None) -> list[tuple[str, str]]:
    """The follows (publisher, user) in the order of their backfills, from `since` on.

    Sorted by publisher, so that no timeline gets many posts at once, and a worker has a publisher's
    posts cached for the next follow. Raises `WrongValue`.
    """
    pairs = sorted((each, user) for each, users in graph.followers.items() for user in users)
    if since is None:
        return pairs
    publisher, _, user = since.partition(",")
    if user not in graph.followers.get(publisher, ()):
        raise WrongValue(f"--from must be a follow of the file, PUBLISHER,FOLLOWER, not {since!r}.")
    return pairs[bisect_left(pairs, (publisher, user)) :]


def order_backfills(
    deployment: Deployment, pairs: Sequence[tuple[str, str]], backfill: Backfill
) -> None:
    """Have RELATE bring these follows, `in_order`, their older posts; repeating it does no harm.

    Orders are sent no faster than RELATE processes them: one that waits for a minute brings fewer
    posts. Each is delayed until the outbox has what was published just before its follow. If it
    stops, it says where to continue: an import may take longer than credentials last.
    """
    relation = WorkQueue(deployment.client("sqs"), deployment.settings().relation_queue_url)
    began = clock.monotonic()
    start = 0

    def stopped() -> str:
        place = shlex.quote(",".join(pairs[start]))
        return (
            f"older posts of {start:,} of {counted(len(pairs), 'follow')} are ordered; go on by "
            f"the same command with --from {place}"
        )

    with (
        progress_bar("Ordering older posts", total=len(pairs), unit="follows") as bar,
        interrupted_with(lambda: f"{stopped()}."),
        failing_with(lambda: f"Stopped: {stopped()}", Unsent),
    ):
        for start in range(0, len(pairs), MAX_BATCH):
            clock.sleep(max(0.0, began + start / backfill.rate - clock.monotonic()))
            some = pairs[start : start + MAX_BATCH]
            relation.send(
                *(
                    BackfillRelation(user_id=user, publisher_id=publisher).message(
                        group=publisher, delay_seconds=names.API.seconds
                    )
                    for publisher, user in some
                )
            )
            bar.advance(len(some))


def _together(follows: Mapping[str, Sequence[str]]) -> Iterator[list[str]]:
    """Groups of users whose follows fit into one read; a user with more is a group alone."""
    users: list[str] = []
    count = 0
    for user in sorted(follows):
        if users and count + len(follows[user]) > MAX_KEYS:
            yield users
            users, count = [], 0
        users.append(user)
        count += len(follows[user])
    if users:
        yield users


def _too_many(
    users: Sequence[str], follows: Mapping[str, Sequence[str]], most: int, new: int
) -> str:
    named = ", ".join(f"'{user}' ({len(follows[user]):,})" for user in users[:NAMED])
    others = f" and {counted(len(users) - NAMED, 'other')}" if len(users) > NAMED else ""
    return (
        f"Nobody may follow more than {counted(most, 'publisher')}, so not all follows of "
        f"{counted(len(users), 'user')} were loaded; in the file follow {named}{others}. "
        f"Everything else is loaded ({new:,} new). Remove some lines of these users and run it "
        "again, or deploy the stack with a higher -c max_follows=."
    )


def following(deployment: Deployment, notify: Notify = lambda *_what: None) -> Following:
    """The use case `Following` on this stack, with the settings of its deployed functions."""
    settings = deployment.run_time_settings()
    stores = deployment.stores(settings)
    cooldown_ms = settings.growth_cooldown_ms
    growing = Growing(Levels(stores.publishers), settings.max_level, cooldown_ms, notify)
    # One attempt, because retries would hide a throttle from `Growing`.
    edges = PatientEdges(deployment.stores(settings, attempts=1).edges, growing)
    table = stores.follows(heads(stores))
    sqs = deployment.client("sqs")
    return Following.of(settings, names.API, table, edges, stores.privacies, sqs)


def heads(stores: Stores) -> KnownHead:
    """The head of the channels."""
    return KnownHead(stores.heads, gives=stores.settings.channel_threshold > 0)


def report_growth(publisher_id: str, what: Shards | NotGrown) -> None:
    """Say that a publisher has grown. An operator cannot act on the reasons why it has not."""
    if isinstance(what, Shards):
        say(
            f"'{publisher_id}' has {2**what.level} write shards now, after "
            f"{what.history[-1].rate:,} follows a second."
        )

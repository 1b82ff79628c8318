"""Load a follow graph into a stack, through the same use case that follows one at a time."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import BotoCoreError, ClientError

import fanfold.aws.boto  # noqa: F401 - by this a lost connection counts as one that passes
from fanfold import clock, names
from fanfold.aws.queues import WorkQueue
from fanfold.errors import FanfoldError, TooManyFollows, TryLater
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.growth import Growing, Notify
from fanfold.follows.levels import Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import NotGrown, Shards
from fanfold_cli import event_sources
from fanfold_cli.console import ExpectedError, say
from fanfold_cli.graph import Graph
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# Users at a time; more wait for the engine, and fewer for the network.
THREADS = 8
# A publisher that must grow does so within some 20 s; meanwhile, and beyond its last growth, an
# import waits for its turn where a reader would be told to come again.
PATIENCE_SECONDS = 60.0
PAUSE_SECONDS = 1.0


class PatientEdges(Edges):
    """The edges of an import, which has the time to wait until a table takes them."""

    # What a batch leaves is put one by one, so these two are all that have to wait.

    def put(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """Write an edge as `Edges` does; raises `TryLater` only if that fails for long."""
        _wait_for(lambda: Edges.put(self, publisher_id, follower_id, version=version))

    def ensure(self, publisher_id: str, follower_id: str, *, version: int) -> None:
        """The same for an edge that is probably there."""
        _wait_for(lambda: Edges.ensure(self, publisher_id, follower_id, version=version))


def _wait_for(write: Callable[[], None]) -> None:
    end = clock.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return write()
        except TryLater:
            if clock.monotonic() >= end:
                raise
        clock.sleep(PAUSE_SECONDS)


def seed(deployment: Deployment, graph: Graph) -> int:
    """Let every user of the graph follow whom they follow in it; returns how many were new."""
    bulk = _bulk_following(deployment)
    follows = graph.follows
    new = 0
    stop = threading.Event()

    def follow(user: str) -> tuple[int, int]:
        if stop.is_set():
            return 0, 0
        try:
            return bulk.follow_all(user, follows[user]), len(follows[user])
        except TooManyFollows as error:
            raise ExpectedError(
                f"The import stopped: {error} In the file, '{user}' follows {len(follows[user])}; "
                "take some out, then run it again. What is there already stays."
            ) from error

    with (
        progress_bar("Following", total=graph.edges, unit="follows") as bar,
        ThreadPoolExecutor(THREADS) as threads,
    ):
        try:
            for changed, edges in threads.map(follow, sorted(follows)):
                new += changed
                bar.advance(edges)
        except (FanfoldError, ClientError, BotoCoreError) as error:
            reason = f"{error} {error.__cause__ or ''}".rstrip()
            raise ExpectedError(
                f"The import stopped; what is there already stays. Run it again: {reason}"
            ) from error
        finally:
            stop.set()
    return new


def relations(deployment: Deployment, notify: Notify = lambda *_what: None) -> Following:
    """What changes and settles follows on this stack, within the limits of its stage."""
    settings, stage = deployment.settings(), event_sources.run_time_settings(deployment)
    dynamodb = deployment.client("dynamodb")
    return Following(
        FollowsTable(dynamodb, settings.following_table, settings.readers_table),
        PatientEdges(
            # A throttle must reach who lets the publisher grow; a client that retries hides it.
            EdgesTable(deployment.client("dynamodb", attempts=1), settings.followers_table),
            Growing(
                Levels(PublishersTable(dynamodb, settings.publishers_table)),
                stage.max_level,
                stage.growth_cooldown_ms,
                notify,
            ),
        ),
        WorkQueue(deployment.client("sqs"), settings.relation_queue_url),
        stage.max_follows,
        names.API.seconds,
    )


def report_growth(publisher_id: str, what: Shards | NotGrown) -> None:
    """Say that a publisher has grown; why one does not grow is of no use to who imports."""
    if isinstance(what, Shards):
        say(
            f"'{publisher_id}' has {2**what.level} write shards now, after "
            f"{what.history[-1].rate:,} follows a second."
        )


def _bulk_following(deployment: Deployment) -> BulkFollowing:
    own = relations(deployment, report_growth)
    return BulkFollowing(own.following, own.edges, own)

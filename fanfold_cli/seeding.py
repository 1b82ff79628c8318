"""Load a follow graph into a stack, through the same use case that follows one at a time."""

import threading
from concurrent.futures import ThreadPoolExecutor

from botocore.exceptions import BotoCoreError, ClientError

from fanfold.bulk_follow import BulkFollowing
from fanfold.errors import FanfoldError, TooManyFollows
from fanfold.edges import Edges
from fanfold.followers import Followers
from fanfold.following import Following
from fanfold.publishers import Publishers
from fanfold.queues import WorkQueue
from fanfold.relate import Relations
from fanfold_cli.console import ExpectedError
from fanfold_cli.graph import Graph
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# Users at a time; more wait for the engine, and fewer for the network.
THREADS = 8


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
        except ExpectedError:
            stop.set()
            raise
        except (FanfoldError, ClientError, BotoCoreError) as error:
            stop.set()
            raise ExpectedError(
                f"The import stopped: {error} Run it again; what is there already stays."
            ) from error
    return new


def _bulk_following(deployment: Deployment) -> BulkFollowing:
    settings = deployment.settings()
    dynamodb = deployment.client("dynamodb")
    following = Following(dynamodb, settings.following_table, settings.readers_table)
    edges = Edges(
        Followers(deployment.client("dynamodb"), settings.followers_table),
        Publishers(dynamodb, settings.publishers_table),
        settings.max_level,
        settings.growth_cooldown_ms,
    )
    relations = Relations(
        following,
        edges,
        WorkQueue(deployment.client("sqs"), settings.relation_queue_url),
        settings.max_follows,
        settings.door_timeout_seconds,
    )
    return BulkFollowing(following, edges, relations)

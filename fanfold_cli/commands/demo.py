"""`fanfold demo`: the main job from end to end, counted at both ends."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import urllib3
from rich.table import Table

from fanfold import contract
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.ledger import COMPLETE, Ledger
from fanfold.ids import sort_key, split_sort_key
from fanfold.messages import Message
from fanfold_cli.console import print_result, say
from fanfold_cli.graph import Graph
from fanfold_cli.http import Api
from fanfold_cli.progress import progress_bar
from fanfold_cli.seeding import seed
from fanfold_cli.stack import Deployment

PUBLISHERS = 20
MOST_FOLLOWERS = 10_000
SEED = 1
# Without one more entry delivered for so long, something is broken.
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.5
# A page of a timeline as the demo shows it; the walk through all pages is by the same.
PAGE = 10


@dataclass(frozen=True)
class Run:
    """One run of the demo: its posts, by `ref_id`, and where they are."""

    deployment: Deployment
    graph: Graph
    posts: dict[str, str] = field(default_factory=dict)  # ref_id -> publisher
    http: urllib3.PoolManager = field(default_factory=urllib3.PoolManager)

    @property
    def expected(self) -> set[tuple[str, str]]:
        """Every (user, ref_id) that must be in the timelines, from the graph alone."""
        return {
            (user, ref_id)
            for ref_id, publisher in self.posts.items()
            for user in self.graph.followers[publisher]
        }

    def api(self, user: str) -> Api:
        """The API as this user calls it."""
        return Api(self.deployment.api_url, self.deployment.token(user), self.http)


def run(deployment: Deployment, graph: Graph, *, tag: str) -> bool:
    """Seed, publish, deliver, read and count; whether everything is where it must be.

    `tag` makes the `ref_id`s of this run its own, so that it can be repeated on the same engine.
    """
    say(
        f"The graph has {len(graph.followers)} publishers and {graph.edges:,} follows; the largest "
        f"publisher has {len(graph.followers[graph.largest()[0]]):,} followers."
    )
    seed(deployment, graph)
    demo = Run(deployment, graph)
    begin = time.monotonic()
    _publish(demo, tag)
    complete = _watch(demo)
    delivered, stray = _count(demo)
    seconds = time.monotonic() - begin
    right = [_show(demo, user) for user in _readers_to_show(graph)]
    if stray:
        say(f"{len(stray)} entries are in timelines of users who do not follow their publisher.")
    if not complete:
        say("The ledger does not say complete for every post.")
    say("The engine goes on; try it, or end it with `fanfold local down`.")
    total = len(demo.expected)
    print_result(f"demo: delivered {delivered:,} of {total:,} entries in {seconds:.1f} s")
    return delivered == total and not stray and complete and all(right)


def _publish(demo: Run, tag: str) -> None:
    """Every publisher posts once: the first half by HTTP, the largest among them, others by SQS."""
    publishers = demo.graph.largest()
    by_http, by_queue = publishers[: len(publishers) // 2], publishers[len(publishers) // 2 :]
    for number, publisher in enumerate(by_http, 1):
        ref_id = f"{tag}-http-{number:02d}"
        content = {"ref_id": ref_id, "body": {"title": "Hello by HTTP"}}
        accepted = demo.api(publisher).call(
            "POST", contract.PUBLISH_POST.path, wanted=202, content=content
        )
        demo.posts[accepted["ref_id"]] = publisher
    messages: list[Message] = []
    for number, publisher in enumerate(by_queue, 1):
        ref_id = f"{tag}-queue-{number:02d}"
        demo.posts[ref_id] = publisher
        event = {
            "version": contract.VERSION,
            "type": contract.POST_PUBLISHED,
            "publisher_id": publisher,
            "ref_id": ref_id,
            "body": {"title": "Hello by SQS"},
        }
        messages.append(Message(event, group=publisher))
    settings = demo.deployment.settings()
    WorkQueue(demo.deployment.client("sqs"), settings.publish_queue_url).send(*messages)
    say(f"Published {len(by_http)} posts by HTTP and {len(by_queue)} by queue message.")


def _watch(demo: Run) -> bool:
    """Show the ledger's progress until every fan-out is complete, or nothing moves any more."""
    settings = demo.deployment.settings()
    fanouts = Ledger(demo.deployment.client("dynamodb"), settings.fanouts_table)
    open_ids = set(demo.posts)
    done: dict[str, int] = {}
    moved_at = time.monotonic()
    with progress_bar("Delivering", total=len(demo.expected), unit="entries") as bar:
        while open_ids and time.monotonic() - moved_at < PATIENCE_SECONDS:
            for fanout_id in sorted(open_ids):
                row = fanouts.get(fanout_id)
                if row and row.state == COMPLETE:
                    open_ids.discard(fanout_id)
                if row and row.delivered > done.get(fanout_id, 0):
                    done[fanout_id] = row.delivered
                    moved_at = time.monotonic()
            bar.reach(sum(done.values()))
            time.sleep(POLL_SECONDS if open_ids else 0)
    return not open_ids


def _count(demo: Run) -> tuple[int, set[tuple[str, str]]]:
    """Count this run's rows of the timelines table, and collect those that should not be there."""
    pages = (
        demo.deployment.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=demo.deployment.settings().timelines_table,
            ProjectionExpression="user_id, sort_key",
            ConsistentRead=True,
        )
    )
    found: set[tuple[str, str]] = set()
    for page in pages:
        for item in page["Items"]:
            ref_id = split_sort_key(item["sort_key"]["S"])[1]
            if ref_id in demo.posts:
                found.add((item["user_id"]["S"], ref_id))
    return len(found & demo.expected), found - demo.expected


def _readers_to_show(graph: Graph) -> Sequence[str]:
    """The reader who follows the most publishers, and one who follows as few as anybody."""
    follows = graph.follows
    ordered = sorted(follows, key=lambda user: (-len(follows[user]), user))
    return ordered[0], ordered[-1]


def _show(demo: Run, user: str) -> bool:
    """Print a reader's first page; whether all their pages hold what they should, in order."""
    api = demo.api(user)
    first: Sequence[Mapping[str, Any]] = []
    ours: list[tuple[str, str]] = []
    cursor = None
    while True:
        older = f"&before={quote(cursor)}" if cursor else ""
        page = api.call("GET", f"{contract.READ_TIMELINE.path}?limit={PAGE}{older}", wanted=200)
        first = first or page["entries"]
        ours += [
            (sort_key(entry["published_at"], entry["ref_id"]), entry["publisher_id"])
            for entry in page["entries"]
            if entry["ref_id"] in demo.posts
        ]
        cursor = page["next"]
        if cursor is None:
            break
    table = Table(title=f"The timeline of {user}, newest first", title_justify="left")
    for column in ("published", "publisher", "ref_id", "body"):
        table.add_column(column, no_wrap=True)
    for entry in first:
        body = entry["body"]["title"] if entry["body"] else ""
        at = entry["published_at"].partition("T")[2]
        table.add_row(at, entry["publisher_id"], entry["ref_id"], body)
    print_result(table)
    expected = {ref_id for ref_id, by in demo.posts.items() if user in demo.graph.followers[by]}
    seen = [split_sort_key(key)[1] for key, _ in ours]
    by_right_publisher = all(demo.posts[split_sort_key(key)[1]] == by for key, by in ours)
    newest_first = ours == sorted(ours, reverse=True)
    right = set(seen) == expected and len(seen) == len(expected)
    if not (right and by_right_publisher and newest_first):
        say(
            f"The timeline of {user} is not what it should be: "
            f"{len(seen)} of {len(expected)} posts."
        )
        return False
    return True

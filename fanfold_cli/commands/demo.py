"""`fanfold demo`: follow, publish, deliver and read on the local engine, and count the entries."""

import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
import urllib3

from fanfold import clock, contract
from fanfold.aws import scans
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import COMPLETE
from fanfold.ids import sort_key, split_sort_key
from fanfold.messages import Message
from fanfold_cli.deliveries.idle_timeout import DELIVERY_SECONDS, IdleTimeout
from fanfold_cli.follows.graph import Graph, heavy_tailed
from fanfold_cli.follows.seeding import seed
from fanfold_cli.local import deploy
from fanfold_cli.local.home import IS_CHECKOUT, Home
from fanfold_cli.options import BrowserOption, HomeOption, JsonOption, PortOption
from fanfold_cli.progress import progress_bar, waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    counted,
    failing_with,
    has_terminal,
    interrupted_with,
    print_json,
    print_result,
    say,
)
from fanfold_client import Failed, Fanfold, pool_for

if TYPE_CHECKING:
    from rich.table import Table

PUBLISHERS = 20
MOST_FOLLOWERS = 10_000
SEED = 1
POLL_SECONDS = 0.5
# Of the largest post with --hurt: long enough to do something to it.
HURT_SECONDS = 22.0
# Entries that are shown of a timeline, and those of a page: a timeline has several.
PAGE = 10


@dataclass(frozen=True)
class Run:
    """One run of the demo and the posts that it has published."""

    deployment: Deployment
    graph: Graph
    posts: dict[str, str] = field(default_factory=dict)  # ref_id -> publisher

    @property
    def expected(self) -> set[tuple[str, str]]:
        """Every (user, ref_id) that must be in the timelines, from the graph alone."""
        return {
            (user, ref_id)
            for ref_id, publisher in self.posts.items()
            for user in self.graph.followers[publisher]
        }

    @cached_property
    def http(self) -> urllib3.PoolManager:
        return pool_for(self.deployment.api_url)

    def api(self, user: str) -> Fanfold:
        return Fanfold(self.deployment.api_url, self.deployment.token(user), pool=self.http)


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a run has found; numbers of entries, deliveries and timelines."""

    expected: int
    delivered: int
    unexpected: int
    late: int
    wrong_timelines: int
    seconds: float

    @property
    def is_right(self) -> bool:
        """Whether every entry is where it must be, and no other entry is anywhere."""
        is_complete = self.delivered == self.expected
        return is_complete and not (self.unexpected or self.late or self.wrong_timelines)


def demo(
    home: HomeOption = None,
    followers: Annotated[
        int, typer.Option(min=1, help="Followers of the largest publisher.")
    ] = MOST_FOLLOWERS,
    number: Annotated[int, typer.Option("--seed", help="Seed of the follow graph.")] = SEED,
    hurt: Annotated[
        bool,
        typer.Option(
            "--hurt",
            help="Kill workers, refuse batches and deliver twice meanwhile, on an engine of its "
            "own; a page shows it, and has buttons for it.",
        ),
    ] = False,
    seconds: Annotated[
        float,
        typer.Option(min=1.0, max=45.0, help="With --hurt: how long the largest post shall take."),
    ] = HURT_SECONDS,
    port: PortOption = 0,
    browser: BrowserOption = True,
    as_json: JsonOption = False,
) -> None:
    """Show the main job on the local engine: follow, publish, deliver, read, and count."""
    chosen = Home.choose(home)
    if hurt:
        graph = heavy_tailed(publishers=PUBLISHERS, most=followers, seed=number)
        _hurt(chosen, graph, seconds, port, browser=browser, as_json=as_json)
        return
    deployment = deploy.bring_up(chosen)
    is_default = (followers, number) == (MOST_FOLLOWERS, SEED)
    # Publishers of their own for each graph: otherwise two graphs on one engine would add up.
    prefix = "" if is_default else f"{number}x{followers}-"
    graph = heavy_tailed(publishers=PUBLISHERS, most=followers, seed=number, prefix=prefix)
    down = chosen.command("down")
    with interrupted_with(f"the engine keeps running; {down} ends it."):
        result = _run(deployment, graph, tag=f"demo-{secrets.token_hex(3)}", is_shown=not as_json)
    say(f"The engine keeps running: try it, or end it with {down}.")
    if as_json:
        print_json(asdict(result) | {"is_right": result.is_right})
    else:
        print_result(
            f"demo: delivered {result.delivered:,} of {result.expected:,} entries in "
            f"{result.seconds:.1f} s"
        )
    if not result.is_right:
        raise typer.Exit(1)


def _hurt(
    home: Home, graph: Graph, seconds: float, port: int, *, browser: bool, as_json: bool
) -> None:
    if not IS_CHECKOUT:
        raise ExpectedError(
            "`fanfold demo --hurt` runs the functions in processes of its own, so it needs a "
            "checkout of Fanfold."
        )
    from proof.hurt import command

    verdict = command.run(
        home, graph, seconds=seconds, port=port, browser=browser and has_terminal()
    )
    if as_json:
        content = asdict(verdict)
        print_json(content | {"lost": verdict.lost, "is_right": verdict.is_right})
    else:
        print_result(verdict.sentence)
    if not verdict.is_right:
        raise typer.Exit(1)


def _run(deployment: Deployment, graph: Graph, *, tag: str, is_shown: bool) -> Result:
    """Publish, deliver and count; with `is_shown`, print two timelines as well.

    The keys and `ref_id`s of the run begin with `tag`, so that the demo can be repeated on the same
    engine.
    """
    most = len(graph.followers[graph.largest()[0]])
    say(
        f"The graph has {counted(len(graph.followers), 'publisher')} and "
        f"{counted(graph.edges, 'follow')}; the largest publisher has "
        f"{counted(most, 'follower')}."
    )
    seed(deployment, graph)
    current = Run(deployment, graph)
    begin = time.monotonic()
    with (
        waiting_for("the publishers to sign in and publish"),
        failing_with("A post cannot be published", Failed),
    ):
        publish(current, tag)
    late = _watch(current)
    with waiting_for("all timelines to be counted"):
        delivered, unexpected = _count(current)
    seconds = time.monotonic() - begin
    with failing_with("A timeline cannot be read", Failed):
        readers = _readers_to_show(graph)
        correct = [_show(current, user, late, is_shown=is_shown) for user in readers]
    if unexpected:
        found = counted(len(unexpected), "entry was", "entries were")
        say(f"{found} found in timelines of users who do not follow the publisher.")
    if late:
        _say_what_is_late(late)
    return Result(
        expected=len(current.expected),
        delivered=delivered,
        unexpected=len(unexpected),
        late=len(late),
        wrong_timelines=correct.count(False),
        seconds=round(seconds, 3),
    )


def publish(run: Run, tag: str) -> None:
    """Publish one post of each publisher: the larger half by HTTP, the smaller half by SQS."""
    publishers = run.graph.largest()
    by_http, by_queue = publishers[: len(publishers) // 2], publishers[len(publishers) // 2 :]
    for number, publisher in enumerate(by_http, 1):
        key = f"{tag}-http-{number:02d}"
        accepted = run.api(publisher).publish({"title": "Hello by HTTP"}, key=key)
        run.posts[accepted["ref_id"]] = publisher
    messages: list[Message] = []
    for number, publisher in enumerate(by_queue, 1):
        ref_id = f"{tag}-queue-{number:02d}"
        run.posts[ref_id] = publisher
        event = {
            "version": contract.VERSION,
            "type": contract.POST_PUBLISHED,
            "publisher_id": publisher,
            "ref_id": ref_id,
            "body": {"title": "Hello by SQS"},
        }
        messages.append(Message(event, group=publisher))
    settings = run.deployment.settings()
    WorkQueue(run.deployment.client("sqs"), settings.publish_queue_url).send(*messages)
    say(
        f"Published {counted(len(by_http), 'post')} by HTTP and "
        f"{counted(len(by_queue), 'post')} by queue message."
    )


def _watch(run: Run) -> set[str]:
    """Show progress until every fan-out is complete, or none progresses; return what is late."""
    settings = run.deployment.settings()
    ledger = Ledger(run.deployment.client("dynamodb"), settings.fanouts_table)
    incomplete = set(run.posts)
    delivered: dict[str, int] = {}
    idle = IdleTimeout(DELIVERY_SECONDS)
    with progress_bar("Delivering", total=len(run.expected), unit="entries") as bar:
        while incomplete and not idle.is_over():
            for fanout_id in sorted(incomplete):
                row = ledger.get(fanout_id)
                if row and row.state == COMPLETE:
                    incomplete.discard(fanout_id)
                if row and row.delivered > delivered.get(fanout_id, 0):
                    delivered[fanout_id] = row.delivered
                    idle.progressed()
            bar.reach(sum(delivered.values()))
            if incomplete:
                clock.sleep(POLL_SECONDS)
    return incomplete


def _say_what_is_late(late: Collection[str]) -> None:
    are = counted(len(late), "delivery is", "deliveries are")
    say(f"{are} still under way, see `fanfold fanout list`; what was accepted is not lost.")


def _count(run: Run) -> tuple[int, set[tuple[str, str]]]:
    """Scan the timelines: the number of expected entries, and each unexpected (user, ref_id)."""
    pages = scans.pages(
        run.deployment.client("dynamodb"),
        TableName=run.deployment.settings().timelines_table,
        ProjectionExpression="user_id, sort_key",
        ConsistentRead=True,
    )
    found: set[tuple[str, str]] = set()
    for page in pages:
        for item in page["Items"]:
            ref_id = split_sort_key(item["sort_key"]["S"])[1]
            if ref_id in run.posts:
                found.add((item["user_id"]["S"], ref_id))
    return len(found & run.expected), found - run.expected


def _readers_to_show(graph: Graph) -> Sequence[str]:
    """A reader who follows the most publishers, and one who follows the fewest."""
    follows = graph.follows
    ordered = sorted(follows, key=lambda user: (-len(follows[user]), user))
    return ordered[0], ordered[-1]


def _show(run: Run, user: str, late: Collection[str], *, is_shown: bool) -> bool:
    """Print the first page of a timeline; return whether all its pages are right and in order."""
    entries = _read(run, user)
    if is_shown:
        print_result(_table(user, entries[:PAGE]))
    fault = _difference(run, user, entries, late)
    if fault is not None:
        say(fault)
    return fault is None


def _table(user: str, entries: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.table import Table

    table = Table(title=f"The timeline of {user}, newest first", title_justify="left")
    for column in ("published", "publisher"):
        table.add_column(column, no_wrap=True)
    # On a narrow terminal these two go on in the next line, and no id is cut.
    for column in ("ref_id", "body"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        body = entry["body"]["title"] if entry["body"] else ""
        at = entry["published_at"].partition("T")[2]
        table.add_row(at, entry["publisher_id"], entry["ref_id"], body)
    return table


def _difference(
    run: Run, user: str, entries: Sequence[Mapping[str, Any]], late: Collection[str]
) -> str | None:
    """What is wrong with a timeline in a sentence, but for posts that are `late`."""
    ours = [each for each in entries if each["ref_id"] in run.posts.keys() - late]
    keys = [sort_key(entry["published_at"], entry["ref_id"]) for entry in ours]
    seen = sorted((entry["ref_id"], entry["publisher_id"]) for entry in ours)
    expected = sorted(
        (ref_id, by)
        for ref_id, by in run.posts.items()
        if user in run.graph.followers[by] and ref_id not in late
    )
    if seen == expected and keys == sorted(keys, reverse=True):
        return None
    return f"Not as expected: the timeline of {user} must hold {expected}, newest first."


def _read(run: Run, user: str) -> list[Mapping[str, Any]]:
    with waiting_for(f"the timeline of {user}"):
        return list(run.api(user).timeline.older(limit=PAGE))

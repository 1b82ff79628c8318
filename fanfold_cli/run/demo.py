"""`fanfold demo`: follow, publish, deliver and read on the local engine; count the entries."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from fanfold_cli.deliveries.watch import DELIVERY_SECONDS
from fanfold_cli.follows.graph import Graph, heavy_tailed
from fanfold_cli.follows.seeding import seed
from fanfold_cli.local import deploy
from fanfold_cli.local.home import IS_CHECKOUT, Home
from fanfold_cli.options import BrowserOption, HomeOption, JsonOption, PortOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.run.people import People
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import EXTRA, Reading, judge
from fanfold_cli.run.watch import Watched, await_delivery
from fanfold_cli.terminal import (
    ExpectedError,
    counted,
    failing_with,
    has_terminal,
    interrupted_with,
    print_json,
    print_result,
    say,
    text_table,
)
from fanfold_client import Failed

PUBLISHERS = 20
MOST_FOLLOWERS = 10_000
SEED = 1
# Duration of the largest delivery with --hurt: long enough to disturb it.
HURT_SECONDS = 22.0
ASK_SECONDS = 5.0  # an engine that hangs may still take connections; the next ask is a second later
# Entries of a page, and how many of a timeline are shown.
PAGE = 10


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
            help="Kill workers, refuse batches and deliver twice, on a separate engine; a page "
            "shows it, with buttons for each.",
        ),
    ] = False,
    seconds: Annotated[
        float, typer.Option(min=1.0, max=45.0, help="With --hurt: seconds for the largest post.")
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
    # Each graph has its own publishers; otherwise two graphs on one engine would add up.
    prefix = "" if is_default else f"{number}x{followers}-"
    graph = heavy_tailed(publishers=PUBLISHERS, most=followers, seed=number, prefix=prefix)
    down = chosen.command("down")
    with interrupted_with(f"the engine keeps running; {down} ends it."):
        result = _run(People(deployment), graph, is_shown=not as_json)
    say(f"The engine keeps running: try it, or end it with {down}.")
    if as_json:
        print_json(result)
    else:
        print_result(
            f"demo: delivered {result['delivered']:,} of {result['expected']:,} entries in "
            f"{result['seconds']:.1f} s"
        )
    if not result["is_right"]:
        raise typer.Exit(1)


def _hurt(
    home: Home, graph: Graph, seconds: float, port: int, *, browser: bool, as_json: bool
) -> None:
    if not IS_CHECKOUT:
        raise ExpectedError(
            "`fanfold demo --hurt` needs a checkout of Fanfold: it runs the functions in processes "
            "of its own."
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


def _run(people: People, graph: Graph, *, is_shown: bool) -> dict[str, Any]:
    """Follow, publish, deliver, read and count; with `is_shown`, print two timelines."""
    most = len(graph.followers[graph.largest()[0]])
    say(
        f"The graph has {counted(len(graph.followers), 'publisher')} and "
        f"{counted(graph.edges, 'follow')}; the largest publisher has "
        f"{counted(most, 'follower')}."
    )
    begun = time.time()
    seed(people.deployment, graph)
    people.record.follow_all(graph.followers, begun, time.time())
    begin = time.monotonic()
    with (
        waiting_for("the publishers to sign in and publish"),
        failing_with("A post cannot be published", Failed),
    ):
        publish(people, graph, tag=f"demo-{secrets.token_hex(3)}")
    late = await_posts(people, graph)
    seconds = time.monotonic() - begin
    with failing_with("A timeline cannot be read", Failed):
        readings = [_read(people, user) for user in _readers_to_show(graph)]
    if is_shown:
        for reading in readings:
            _print(reading)
    verdict = judge(people.record, readings, rows=rows(people.deployment), ours=None)
    for failure in verdict.failures:
        say(f"Not as expected: {failure}")
    return {
        "expected": verdict.expected,
        "delivered": verdict.right,
        "unexpected": verdict.faults[EXTRA],
        "late": late,
        "wrong_timelines": len(verdict.wrong_readers),
        "seconds": round(seconds, 3),
        "is_right": verdict.is_right and not late,
    }


def publish(people: People, graph: Graph, *, tag: str) -> None:
    """Publish one post of each publisher: the larger half by HTTP, the smaller half by SQS.

    Keys and `ref_id`s begin with `tag`, so that the demo can be repeated on the same engine.
    """
    publishers = graph.largest()
    by_http, by_queue = publishers[: len(publishers) // 2], publishers[len(publishers) // 2 :]
    for number, publisher in enumerate(by_http, 1):
        people.publish(publisher, {"title": "Hello by HTTP"}, key=f"{tag}-http-{number:02d}")
    people.send(
        *(
            people.draft(publisher, {"title": "Hello by SQS"}, ref_id=f"{tag}-queue-{number:02d}")
            for number, publisher in enumerate(by_queue, 1)
        )
    )
    say(
        f"Published {counted(len(by_http), 'post')} by HTTP and "
        f"{counted(len(by_queue), 'post')} by queue message."
    )


def await_posts(people: People, graph: Graph) -> int:
    """Show progress until all posts are delivered or none progresses; return how many are late."""
    watched = [
        Watched(post, len(graph.followers[post.publisher])) for post in people.record.posts.values()
    ]
    before = people.apis, people.seconds
    people.apis = {user: replace(api, seconds=ASK_SECONDS) for user, api in people.apis.items()}
    people.seconds = ASK_SECONDS  # of publishers by queue, who sign in at the first ask
    try:
        late = await_delivery(people, watched, patience=DELIVERY_SECONDS)
    finally:
        people.apis, people.seconds = before
    if late:
        are = counted(len(late), "delivery is", "deliveries are")
        say(f"{are} still under way, see `fanfold fanout list`; what was accepted is not lost.")
    return len(late)


def _readers_to_show(graph: Graph) -> Sequence[str]:
    """A reader who follows the most publishers, and one who follows the fewest."""
    follows = graph.follows
    ordered = sorted(follows, key=lambda user: (-len(follows[user]), user))
    return ordered[0], ordered[-1]


def _read(people: People, user: str) -> Reading:
    with waiting_for(f"the timeline of {user}"):
        reading = people.read(user, limit=PAGE, hydrate=True)
    reading.what = "the timeline"
    return reading


def _print(reading: Reading) -> None:
    columns = ("published", "publisher", "ref_id", "body")
    rows = (
        (
            entry["published_at"].partition("T")[2],
            entry["publisher_id"],
            entry["ref_id"],
            entry["body"]["title"] if entry["body"] else "",
        )
        for entry in reading.entries[:PAGE]
    )
    title = f"The timeline of {reading.reader}, newest first"
    # On a narrow terminal, these two are folded, and no id is cut.
    print_result(text_table(columns, rows, folded=columns[2:], title=title))

"""What a post in a channel costs, and when every container shows it; beside it the same by push."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean
from typing import Any

from fanfold.channels.head import MOST
from fanfold.contract import DEFAULT_LIMIT
from fanfold_cli.cost.channel import Units
from proof.bench.channels import containers as crowds
from proof.bench.channels import costs, pages, publishes
from proof.bench.channels.containers import WarmContainers
from proof.bench.channels.costs import Compared
from proof.bench.channels.pages import Pages
from proof.bench.channels.publishes import ChannelPost, Promoted, Pushed
from proof.bench.channels.world import FOLLOWERS, READ_LAG_SECONDS
from proof.bench.figures import BenchResult, Figure, Lines, Row
from proof.bench.progress import with_progress

# Really pushed; from the last two, that to ten million is worked out.
PUSHED, PUSHED_SHORT = (10_000, 55_000, 220_000), (20_000, 55_000)
SEEDS, SHORT_SEEDS = range(5), range(1)
# Followers and containers of the estimate: there are more pages than containers after each post.
ESTIMATED, SHORT_ESTIMATED = (10_000, 4), (2_000, 1)
# Busy containers that read the one head: the second number is more than its row has read units for.
CROWDS, SHORT_CROWDS = (1_000, 4_000, 10_000), (4_000,)
MANY = 4_000


def run(*, short: bool) -> BenchResult:
    """Publish to channels and by push, read pages of 64 channels, and compare with estimates."""
    seeds, sizes = (SHORT_SEEDS, PUSHED_SHORT) if short else (SEEDS, PUSHED)
    followers, containers = SHORT_ESTIMATED if short else ESTIMATED
    steps: list[Callable[[], Any]] = [
        *(partial(publishes.in_channel, seed) for seed in seeds),
        publishes.promoted,
        pages.of_a_reader_of_all,
        *(partial(publishes.pushed, size) for size in sizes),
        *(partial(costs.compared, round(share * followers), containers) for share in costs.SHARES),
        *(partial(crowds.crowd, each) for each in (SHORT_CROWDS if short else CROWDS)),
    ]
    found = [step() for step in with_progress("channels", steps)]
    channel, found = found[: len(seeds)], found[len(seeds) :]
    promoted, read, *found = found
    pushed, found = found[: len(sizes)], found[len(sizes) :]
    compared, crowded = found[: len(costs.SHARES)], found[len(costs.SHARES) :]
    return BenchResult(
        figures=[*_figures(channel, promoted, read, pushed, compared), *_crowd_figures(crowded)],
        rows=[
            *_publish_rows(channel, promoted, read, pushed),
            *_page_rows(read),
            *_cost_rows(compared),
            *_crowd_rows(crowded),
        ],
        setting={
            "head": f"full, {MOST} channels",
            "seeds": f"{len(seeds)}, the worst of each",
            "containers": f"{publishes.CONTAINERS}, their heads read at different times, eventually"
            f" and up to {READ_LAG_SECONDS:g} s old",
            "time": "virtual; DynamoDB is the capacity model, Lambda warm",
            "page": f"{DEFAULT_LIMIT} ids",
        },
        chart=Lines(
            title="Write units of a publish",
            x="followers",
            y="write units",
            lines={
                "by push; the last point is worked out": [
                    *((each.followers, each.write_units) for each in pushed),
                    (FOLLOWERS, _at_ten_million(pushed).write_units),
                ],
                "to a channel": [
                    (each, _most(channel, lambda of: of.write_units))
                    for each in (pushed[0].followers, FOLLOWERS)
                ],
            },
            log_x=True,
            log_y=True,
        ),
    )


def _most(channel: Sequence[ChannelPost], of: Callable[[ChannelPost], float]) -> float:
    return max(map(of, channel))


def _at_ten_million(pushed: Sequence[Pushed]) -> Pushed:
    """On through the two largest that were really pushed: each follower takes as much as those."""
    smaller, larger = pushed[-2:]
    more = FOLLOWERS - larger.followers
    between = larger.followers - smaller.followers
    return Pushed(
        FOLLOWERS,
        larger.write_units + more * (larger.write_units - smaller.write_units) / between,
        larger.seconds + more * (larger.seconds - smaller.seconds) / between,
    )


def _figures(
    channel: Sequence[ChannelPost],
    promoted: Promoted,
    read: Pages,
    pushed: Sequence[Pushed],
    compared: Sequence[Compared],
) -> list[Figure]:
    push = _at_ten_million(pushed)
    small, large = compared
    return [
        _at_most(
            "write_units",
            _most(channel, lambda of: of.write_units),
            20,
            "units",
            f"of a publish of 1 KB over HTTP to {FOLLOWERS:,} followers; by push "
            f"{push.write_units:,.0f}, worked out from {pushed[-1].followers:,}",
        ),
        _at_most(
            "visible_seconds",
            _most(channel, lambda of: max(of.visible)),
            3,
            "s",
            "from the API's answer until every container has shown it; by push "
            f"{push.seconds:,.0f} s until the last follower's entry",
        ),
        _at_most(
            "warm_page",
            max(read.warm),
            3.5,
            "read units",
            f"the dearest of {len(read.warm)}, of a reader who follows {MOST} publishers with "
            f"channels; {read.without:g} for who follows none",
        ),
        _at_most("cold_page", read.cold, 330, "read units", "the same page, in a new container"),
        _at_most(
            "idle_poll", max(read.idle), 2.5, "read units", "a poll for newer ones; there are none"
        ),
        _at_most(
            "promotion",
            promoted.write_units,
            6,
            "units",
            f"to write, of the {MOST}th publisher, by PLAN",
        ),
        *(
            _at_most(
                f"cost_error_{percent}",
                each.error_percent,
                5,
                "%",
                f"of `fanfold cost`, {percent} % of the followers active: the largest error of "
                "write units, read units and price",
            )
            for percent, each in ((1, small), (20, large))
        ),
    ]


def _crowd_figures(crowded: Sequence[WarmContainers]) -> list[Figure]:
    many = next(each for each in crowded if each.containers == MANY)
    told = f"of {many.pages:,} pages of {MANY:,} busy containers, which read one row"
    return [
        _at_most("refused", many.refused_percent, 0.01, "%", f"503 {told}"),
        _at_most("head_age", many.age_at(0.99), 5, "s", f"p99 of the head's age {told}"),
    ]


def _crowd_rows(crowded: Sequence[WarmContainers]) -> list[Row]:
    return [
        Row(
            f"{each.containers:,} busy containers: 503",
            each.refused_percent,
            "%",
            f"the head behind a page is {each.age_at(0.5):.1f} s old at the median, "
            f"{each.age_at(0.99):.1f} s at p99 and {each.ages[-1]:.1f} s at most",
        )
        for each in crowded
    ]


def _at_most(name: str, value: float, target: float, unit: str, against: str) -> Figure:
    return Figure(f"channels.{name}", value, target, unit, against)


def _publish_rows(
    channel: Sequence[ChannelPost], promoted: Promoted, read: Pages, pushed: Sequence[Pushed]
) -> list[Row]:
    first, times = channel[0], [at for each in channel for at in each.visible]
    by_table = ", ".join(f"{name} {units:g}" for name, units in sorted(first.by_table.items()))
    dollars = Units(writes=first.write_units, reads=promoted.post_reads).dollars
    return [
        Row("to a channel: written", first.write_units, "units", by_table),
        Row(
            "to a channel: read",
            promoted.post_reads,
            "units",
            f"by the API and PLAN, most of it PLAN's sample; with the writes ${dollars:.6f}",
        ),
        Row(
            "to a channel: read by each container",
            read.after_a_post - min(read.warm),
            "units",
            "the head again, which tells the post",
        ),
        Row("to a channel: complete", _most(channel, lambda of: of.complete), "s", "in the ledger"),
        Row(
            "to a channel: visible",
            mean(times),
            "s",
            f"on average of {len(times)} containers; the first after {min(times):.2f} s, the last "
            f"{_most(channel, lambda of: of.since_request):.2f} s after the request",
        ),
        *(
            Row(
                f"by push: {each.followers:,} followers",
                each.write_units,
                "units",
                f"{Units(writes=each.write_units).dollars:,.4f} dollars; {each.seconds:.1f} s; "
                + ("worked out" if each.followers == FOLLOWERS else "really written"),
            )
            for each in (*pushed, _at_ten_million(pushed))
        ),
    ]


def _page_rows(read: Pages) -> list[Row]:
    reads, writes = read.memo
    return [
        Row(
            "a warm page, on average",
            mean(read.warm),
            "read units",
            f"{1_000 * mean(read.warm_seconds):.0f} ms",
        ),
        Row("a cold page", read.cold, "read units", f"{1_000 * read.cold_seconds:.0f} ms"),
        Row("an idle poll, on average", mean(read.idle), "read units"),
        Row(
            f"the first page after {MOST} promotions",
            reads,
            "read units",
            f"in a cold container, and {writes:g} write units: which of them the reader follows",
        ),
    ]


def _cost_rows(compared: Sequence[Compared]) -> list[Row]:
    return [
        Row(
            f"estimate, {each.use.readers:,} readers",
            1e6 * each.estimated.dollars,
            "millionths of a dollar",
            f"counted {1e6 * each.counted.dollars:,.1f}: {each.counted.writes:,.0f} write and "
            f"{each.counted.reads:,.1f} read units, estimated {each.estimated.writes:,.0f} and "
            f"{each.estimated.reads:,.1f}; {each.use.posts} posts, {each.use.pages:,.0f} pages, "
            f"in {each.use.seconds:,.0f} s; containers: {each.use.containers}",
        )
        for each in compared
    ]

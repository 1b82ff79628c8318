"""Holds a history against the promise, with the simulation's oracle of follows.

A page shows the state of one moment during its request. So each page is a sighting of every
publisher whose posts it shows, or leaves out although they are there, and some order of the
requests must explain all sightings (`proof/simulation/oracle/follows.py`).
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from fanfold import times
from proof.history.told import Page, Pair, Told
from proof.simulation.oracle.follows import Asked, Sighting, contradictions, surely

# Once a post was there for this long, pages show it: reads lag, and for five seconds a container
# keeps that a post is missing.
LAG_MS = 10_000
# This long after its retraction, a post may be shown (docs/reliability.md).
GONE_MS = 5_000

MISSING, TORN, NOT_FOLLOWED = "missing", "torn", "not followed"
RETRACTED, EARLY, TWICE, DISORDER, SIZE = "retracted", "early", "twice", "disorder", "size"
SENTENCES = {
    MISSING: "a page leaves out a post of a publisher whom its reader follows",
    TORN: "a page leaves out a post, and shows others of its publisher",
    NOT_FOLLOWED: "a page shows a publisher whom its reader does not follow, or has muted",
    RETRACTED: "a page shows a post that was retracted seconds before",
    EARLY: "a page shows a post before it was accepted",
    TWICE: "a page shows a post twice",
    DISORDER: "a page is not in order of time",
    SIZE: "a page has more entries than its limit, or fewer though there are more",
}


class Finding(NamedTuple):
    """What contradicts the promise, on the page of `user` that was requested at `begin_ms`."""

    kind: str
    user: str
    begin_ms: int
    post: str = ""

    def __str__(self) -> str:
        where = f"reader {self.user}, at {times.to_text(self.begin_ms)}"
        return f"{SENTENCES[self.kind]}: {where}, {self.post}".removesuffix(", ")


@dataclass
class Judged:
    """The findings, and how much could have led to one.

    Posts on pages that had to show them (`owed`), were not to show them (`hidden`), or might do
    either, because a request overlaps (`unsure`). `unknown`: shown, and published before the
    history begins.
    """

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


def judge(told: Told, *, lag_ms: float = LAG_MS, is_whole: bool = False) -> Judged:
    """Judge every page. If the history `is_whole`, nobody followed anybody before it began."""
    return _Judge(told, lag_ms, is_whole).judged()


class _Judge:
    def __init__(self, told: Told, lag_ms: float, is_whole: bool) -> None:
        self.told, self.lag_ms, self.is_whole = told, lag_ms, is_whole
        self.found = Judged()
        self.pages: dict[Sighting, tuple[Page, str]] = {}
        self.follows: dict[Pair, list[Sighting]] = defaultdict(list)
        self.mutes: dict[Pair, list[Sighting]] = defaultdict(list)
        # When each reader was first shown a publisher: followed by then, and not muted.
        self.shown: dict[Pair, float] = {}
        for page in told.pages:
            for post in page.posts:
                if post in told.posts:
                    pair = page.user, told.posts[post].publisher
                    self.shown[pair] = min(page.end, self.shown.get(pair, math.inf))
        self.publishers_of: dict[str, list[str]] = defaultdict(list)
        for user, publisher in told.follows.keys() | self.shown.keys():
            self.publishers_of[user].append(publisher)
        self.posts_of: dict[str, list[str]] = defaultdict(list)
        for post, published in told.posts.items():
            self.posts_of[published.publisher].append(post)

    def judged(self) -> Judged:
        told, counts = self.told, self.found.counts
        by_user: dict[str, list[Page]] = defaultdict(list)
        for page in sorted(told.pages, key=lambda each: each.begin):
            by_user[page.user].append(page)
        for user, pages in by_user.items():
            self._judge_reader(user, pages)
        for pair, sightings in self.follows.items():
            self._explain(self._follow_requests(pair), sightings)
        for pair, sightings in self.mutes.items():
            self._explain(self._mute_requests(pair, self.told.begin), sightings)
        counts |= Counter(
            pages=len(told.pages),
            posts=len(told.posts),
            complete=len(told.posts.keys() & told.completed.keys()),
            follows=sum(map(len, told.follows.values())),
        )
        self.found.findings.sort(key=lambda each: (each.begin_ms, each))
        return self.found

    def _explain(self, requests: Sequence[Asked], sightings: Sequence[Sighting]) -> None:
        """Find the sightings that no order of the requests explains."""
        for what in contradictions(requests, sightings, skew_ms=self.told.skew_ms):
            if isinstance(what, Sighting):
                page, post = self.pages[what]
                self._find(MISSING if what.what == MISSING else NOT_FOLLOWED, page, post)

    def _judge_reader(self, user: str, pages: Sequence[Page]) -> None:
        delivered = self._delivered(user)
        seen: dict[str, float] = {}
        for page in pages:
            self._judge_alone(page)
            self._compare(page, self._due(page, delivered, seen))
            for post in page.posts:
                done = self.told.completed.get(post)
                if done and not done.in_channel:
                    seen[post] = min(page.end, seen.get(post, math.inf))

    def _judge_alone(self, page: Page) -> None:
        """Find what is wrong with a page, whomever its reader follows."""
        told, posts = self.told, page.posts
        known = [told.posts[post] for post in posts if post in told.posts]
        self.found.counts["shown"] += len(posts)
        self.found.counts["unknown"] += len(posts) - len(known)
        if [each.at for each in known] != sorted((each.at for each in known), reverse=True):
            self._find(DISORDER, page)
        if page.is_wrong_size:
            self._find(SIZE, page)
        for post, count in Counter(posts).items():
            if count > 1:
                self._find(TWICE, page, post)
            if post in told.posts and told.posts[post].begin > page.end:
                self._find(EARLY, page, post)
            gone = min((end for _, end in told.retracted.get(post, ())), default=math.inf)
            if page.begin > gone + GONE_MS and not page.ids_alone:
                self._find(RETRACTED, page, post)

    def _delivered(self, user: str) -> list[tuple[int, str, float]]:
        """The posts that surely came to a user, oldest first: their time, id, and since when."""
        found = []
        for publisher in self.publishers_of[user]:
            requests = self._follow_requests((user, publisher), of_reads=False)
            for post in self.posts_of[publisher]:
                published, done = self.told.posts[post], self.told.completed.get(post)
                if done is None:
                    continue
                span = published.begin, done.at
                if surely(requests, *span, skew_ms=self.told.skew_ms):
                    found.append((published.at, post, done.at))
        return sorted(found)

    def _due(
        self, page: Page, delivered: Sequence[tuple[int, str, float]], seen: dict[str, float]
    ) -> dict[str, list[str]]:
        """The posts that a page must show if it shows their publisher, by publisher."""
        told = self.told
        lowest, below = page.covers
        first = bisect_right(delivered, (lowest, "~", math.inf))
        since = {post: at for published_at, post, at in delivered[first:] if published_at < below}
        for post, at in seen.items():
            if post in told.posts and lowest < told.posts[post].at < below:
                since[post] = min(at, since.get(post, math.inf))
        due = defaultdict(list)
        for post, at in since.items():
            gone = min((begin for begin, _ in told.retracted.get(post, ())), default=math.inf)
            if at + self.lag_ms <= page.begin and gone > page.end:
                publisher = told.posts[post].publisher
                if not told.completed[post].in_channel or self._has_followed(page, post):
                    due[publisher].append(post)
        return due

    def _has_followed(self, page: Page, post: str) -> bool:
        """Whether the reader surely followed from this post to this page."""
        published = self.told.posts[post]
        requests = self._follow_requests((page.user, published.publisher))
        return surely(requests, published.begin, page.end, skew_ms=self.told.skew_ms) is True

    def _compare(self, page: Page, due: dict[str, list[str]]) -> None:
        told, shown = self.told, defaultdict(list)
        for post in page.posts:
            if post in told.posts:
                shown[told.posts[post].publisher].append(post)
        for publisher in sorted(shown.keys() | due.keys()):
            left = [post for post in due.get(publisher, ()) if post not in shown[publisher]]
            self._count(page, publisher, len(due.get(publisher, ())))
            if shown[publisher] and left:
                self._find(TORN, page, left[0])
            elif shown[publisher]:
                self._sight(page, publisher, shown[publisher][0], is_shown=True)
            else:
                self._sight(page, publisher, left[0], is_shown=False)

    def _sight(self, page: Page, publisher: str, post: str, *, is_shown: bool) -> None:
        """Note that a page shows a publisher, or none of the posts that it must show then."""
        pair = page.user, publisher
        mutes = self._mute_requests(pair, page.begin)
        span, skew_ms = (page.begin, page.end), self.told.skew_ms

        def note(among: dict[Pair, list[Sighting]], *, follows: bool) -> None:
            what = "" if is_shown else MISSING
            sighting = Sighting(*span, follows=follows, what=what)
            self.pages[sighting] = page, post
            among[pair].append(sighting)

        if is_shown:
            note(self.follows, follows=True)
            if mutes:
                note(self.mutes, follows=False)
        elif not mutes or surely(mutes, *span, skew_ms=skew_ms) is False:
            note(self.follows, follows=False)
        elif surely(self._follow_requests(pair), *span, skew_ms=skew_ms):
            note(self.mutes, follows=True)

    def _count(self, page: Page, publisher: str, posts: int) -> None:
        pair, span = (page.user, publisher), (page.begin, page.end)
        mutes, skew_ms = self._mute_requests(pair, page.begin), self.told.skew_ms
        is_muted = surely(mutes, *span, skew_ms=skew_ms) if mutes else False
        follows = surely(self._follow_requests(pair), *span, skew_ms=skew_ms)
        if follows is False or is_muted:
            self.found.counts["hidden"] += posts
        elif follows and is_muted is False:
            self.found.counts["owed"] += posts
        else:
            self.found.counts["unsure"] += posts

    def _follow_requests(self, pair: Pair, *, of_reads: bool = True) -> list[Asked]:
        """What was asked for: as reads see it, or deliveries, which may see it later."""
        asked = self.told.follows.get(pair, [])
        if of_reads:
            asked = [replace(each, seen_by=math.nan) for each in asked]
        return [*asked, *self._before(self.shown.get(pair))]

    def _mute_requests(self, pair: Pair, at: float) -> list[Asked]:
        """A reader who has been shown the publisher before `at` had no mute from before."""
        is_known = self.shown.get(pair, math.inf) < at
        return [*self.told.mutes.get(pair, ()), *([] if is_known else self._before())]

    def _before(self, shown: float | None = None) -> list[Asked]:
        """A follow or mute from before the history: a possible one, or once `shown` a sure one."""
        if self.is_whole:
            return []
        ended = self.told.begin if shown is None else shown
        return [Asked(True, -math.inf, ended, is_due=shown is not None, stamp=-math.inf)]

    def _find(self, kind: str, page: Page, post: str = "") -> None:
        self.found.findings.append(Finding(kind, page.user, page.begin_ms, post))

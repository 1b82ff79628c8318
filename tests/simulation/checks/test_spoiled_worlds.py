"""Every check can fail: for each sentence that one can say, a world is spoiled, and it says so.

A world of a few users runs to its end, and nothing is wrong with it. Then one thing is done to its
tables, its queues or its history, or done under the name of an actor who would never do it.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import contract, names
from fanfold.aws.items import expressions
from fanfold.channels.head import HEAD, key_of, partition_of
from fanfold.doctor.findings import Miscount, Snapshot, Unreachable
from fanfold.errors import Contended, TooManyFollows, TryLater
from fanfold.fanout.ledger import Ledger
from fanfold.follows import ring
from fanfold.follows.follower_estimate import Estimate
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publisher.followers import Followers
from fanfold.follows.relation import FOLLOWED, Follow
from fanfold.messages import DeliverSegment
from fanfold.rates import Rate
from fanfold.timeline import marks, post_cache, visibility
from fanfold.timeline.page_reads import Shown
from fanfold.timeline.readers import Counts
from fanfold_cli.audit import audit as audit_command
from proof.model.clock import START_MS
from proof.simulation.checks import (
    alarms,
    answers,
    audit,
    edits,
    entries,
    follows,
    judge,
    ledger,
    posts,
    rows,
    weeks,
    work,
)
from proof.simulation.checks.reading import shown_posts, upwards
from proof.simulation.clients import climbs, requests
from proof.simulation.clients.edits import Edit
from proof.simulation.clients.history import Page, PostRead
from proof.simulation.clients.readers import FOLLOWING, Listing
from proof.simulation.kinds import broken, operated
from proof.simulation.kinds.drawn import KINDS
from proof.simulation.observed.cloudwatch import Watch
from proof.simulation.oracle.follows import RowChange
from proof.simulation.oracle.liveness import Liveness
from proof.simulation.stage import stores
from proof.simulation.world import commands
from proof.simulation.world.aws_clients import BotoClient
from proof.simulation.world.lambdas import dlq_url, installed, queue_url
from proof.simulation.world.world import World
from tests.simulation.spoilings import (
    CHANGED,
    EDITED,
    ENDED,
    FOLLOWERS,
    NOISE,
    OTHER,
    POST,
    PUBLISHER,
    RETRACTED,
    SENT,
    SMALL,
    SPOILINGS,
    Spoil,
    acting,
    changed,
    channelled,
    edge,
    edge_of,
    entry,
    entry_of,
    fanout,
    follow,
    gone,
    keyed,
    later,
    number,
    post,
    put,
    settled,
    soon,
    spoil_for,
    spoils,
    text,
    with_newest,
    without_edge,
)

SIMULATION = Path(judge.__file__).parent.parent
# Where sentences of violations are said.
SAID_IN = (
    *sorted(set((SIMULATION / "checks").rglob("*.py")) - {Path(weeks.__file__)}),  # test_weeks.py
    *sorted((SIMULATION / "kinds").glob("*.py")),
    *(SIMULATION / f"observed/{name}.py" for name in ("letters", "levels", "observers", "sweeps")),
    SIMULATION / "oracle/liveness.py",
)
observed = judge.nothing_was_observed_during_the_run
AN_HOUR_LATER = "2026-11-20T19:00:00.000Z"
NOBODYS = text(f"{AN_HOUR_LATER}#nobodys")
ANOTHER = text('{"title":"another"}')

# Entries


@spoils(shown_posts.posts_are_shown_as_they_were_sent, "which nobody has published")
def a_post_that_nobody_published(world: World) -> None:
    entry(world, "ann", POST, sort_key=NOBODYS)
    like = world.row(names.POSTS, keyed({"ref_id": POST}))
    put(world, names.POSTS, **{**like, "ref_id": text("nobodys"), "sort_key": NOBODYS})


def a_missing_entry(world: World) -> None:
    gone(world, names.TIMELINES, entry_of(world, "ann", POST))


spoil_for(entries.no_acknowledged_follower_is_missed, {"and has no entry of": a_missing_entry})
spoil_for(
    entries.nobody_gets_what_they_do_not_follow,
    {
        "which nobody has published": partial(entry, user="ann", ref_id=POST, sort_key=NOBODYS),
        "and never asked to follow": partial(entry, user="zoe", ref_id=POST),
        f"and has {POST}": partial(entry, user="fay", ref_id=POST),  # who has unfollowed
    },
)


too_high = partial(edge, user="ann", level=3)
spoil_for(entries.a_last_post_reaches_every_follower_once, {"wrong about": too_high})


@spoils(rows.edges_lie_where_they_are_read, "lies above the publisher's level")
def a_second_edge_at_another_level(world: World) -> None:
    before = edge_of(world, "ann", PUBLISHER)
    edge(world, "ann", level=1)
    put(world, names.FOLLOWERS, **before)


@spoils(entries.a_last_post_reaches_every_follower_once, "times to")
def a_worker_that_counts_one_too_many(world: World) -> Any:
    finish = Ledger.finish_segment

    def wrong(self: Ledger, *arguments: Any, written: int, **more: Any) -> Any:
        return finish(self, *arguments, written=written + 1, **more)

    return patch.object(Ledger, "finish_segment", wrong)


# Follows


@spoils(rows.follows_are_kept, "and has no row")
@spoils(follows.lists_of_follows_are_what_was_asked_for, "is not in the list of ann")
def an_acknowledged_follow_gone_whole(world: World) -> None:
    without_edge(world, "ann")
    gone(world, names.FOLLOWING, {"user_id": "ann", "publisher_id": PUBLISHER})


def a_change_that_nobody_asked_for(world: World) -> None:
    world.observer.changes["ann", PUBLISHER].append(RowChange(world.clock.now_ms(), False))


spoil_for(
    follows.edges_agree_with_the_lists_of_follows,
    {
        "in the place of": partial(without_edge, user="ann"),
        "does not agree with the list": lambda _: patch.object(
            FollowsTable, "page", lambda *_, **__: ([], False)
        ),
        "has an edge of version 9": partial(edge, user="ann", version=number(9)),
        "has an edge of version 0": partial(edge, user="ann", version=number(0)),
    },
)


def _counted_before(world: World) -> None:
    now_ms = world.clock.now_ms()
    listing = Listing("ann", FOLLOWING, now_ms, now_ms, frozenset({PUBLISHER, OTHER}), 1)
    world.history.readers.listings.append(listing)


spoil_for(
    follows.follows_are_counted,
    {
        "ann is told to follow 3 publishers, not 2 to 2": partial(
            changed, table=names.READERS, key={"user_id": "ann"}, follows=number(3)
        ),
        "ann is told to follow 1 publishers, not 2 to 2": _counted_before,
    },
)
spoil_for(
    follows.lists_of_follows_are_what_was_asked_for,
    {"p0 is in the list of fay": partial(follow, user="fay", state=text("followed"))},
)
spoil_for(
    follows.follows_change_as_they_were_asked_to,
    {"no order of the requests explains": a_change_that_nobody_asked_for},
)
spoil_for(
    rows.follows_are_kept,
    {
        "and has no row": partial(  # not even a tombstone
            gone, table=names.FOLLOWING, key={"user_id": "fay", "publisher_id": PUBLISHER}
        ),
        "never expires": partial(follow, user="fay", expires_at=None),
        "is to expire": partial(follow, user="ann", expires_at=number(1)),
        "ends too early or too late": partial(follow, user="fay", expires_at=soon),
        "in the future": partial(follow, user="ann", asked_at=number(32_503_680_000_000)),
    },
)


def _used_up(table: names.Table, name: str, owner: str) -> Spoil:
    """A rate is used up for a year."""
    used: Any = {name: number((START_MS + 365 * 86_400_000) * 1_000_000)}
    return partial(changed, table=table, key={table.partition_key: owner}, **used)


spoil_for(
    rows.rates_are_used_up_for_their_period_at_most,
    {
        "ann has used up a rate": _used_up(names.READERS, "follows_until_ns", "ann"),
        "p0 has used up a rate": _used_up(names.PUBLISHERS, "posts_until_ns", PUBLISHER),
    },
)


spoil_for(
    follows.follows_are_listed_with_their_time,
    {"when nobody asked for it": partial(follow, user="ann", followed_at=text(AN_HOUR_LATER))},
)
spoil_for(
    follows.publishers_are_told_who_follows_them,
    {
        "is told the followers []": lambda _: patch.object(
            Followers, "list", lambda *_, **__: ([], None)
        ),
        "is told the count": lambda _: patch.object(
            Followers, "count", lambda *_: Estimate(followers=1, exact=True)
        ),
        "Who asks for the followers of another": lambda _: patch.object(
            Followers, "_check", lambda *_: None
        ),
    },
)
spoil_for(
    rows.edges_lie_where_they_are_read,
    {
        "The edge of ann at p0 lies above": too_high,
        "lies where it does not belong": partial(
            edge, user="ann", edge=text(f"{ring.position('bob')}#ann")
        ),
    },
)

# The ledger

of_post = partial(fanout, ref_id=POST)
queued = partial(of_post, state=text("queued"))
abandoned_by_nobody = partial(of_post, state=text("abandoned"))


@spoils(ledger.the_ledger_is_right, "is stalled and not in the index 'stalled'")
@spoils(broken.what_was_sent_again_is_delivered, "was sent again, and is stalled")
def stalled_where_nobody_looks(world: World) -> None:
    world.was_sent_again = True
    fanout(world, POST, state=text("stalled"))


spoil_for(
    ledger.the_ledger_is_right,
    {
        "is queued and not in the index 'open'": queued,
        "is complete, and has something pending": partial(of_post, pending={"NS": ["0"]}),
        "entries, and the ledger says": partial(of_post, delivered=later),
        "is complete and in the index 'stalled'": partial(of_post, stalled_fanout=text(POST)),
        "is abandoned and in the index 'open'": partial(
            fanout, ref_id=ENDED, open_fanout=text(ENDED)
        ),
    },
)
spoil_for(
    posts.every_accepted_post_is_delivered_or_visibly_not,
    {
        "long after the last fault": queued,
        "has expired too early": partial(of_post, state=text("expired")),
        "is abandoned, and nobody did": abandoned_by_nobody,
    },
)
spoil_for(
    ledger.what_an_operator_ended_stays_ended,
    {
        "is abandoned, and nobody did that": abandoned_by_nobody,
        "was abandoned, and is complete": partial(fanout, ref_id=ENDED, state=text("complete")),
    },
)
spoil_for(
    rows.fanouts_agree_with_their_posts,
    {
        "another accepted_at in the ledger": partial(
            of_post, accepted_at=text("2026-11-20T18:00:30.000Z")
        ),
        "another publisher_id in the ledger": partial(of_post, publisher_id=text(OTHER)),
        "another sort_key in the ledger": partial(
            of_post, sort_key=text(f"{AN_HOUR_LATER}#{POST}")
        ),
        "expires at another time than its post": partial(of_post, expires_at=later),
        "are to expire at another time": partial(of_post, entries_expire_at=later),
        "does not say since when": partial(of_post, completed_at=None),
        "was complete before it was accepted": partial(
            of_post, completed_at=text("2026-11-20T17:00:00.000Z")
        ),
        "and has something to resume": partial(
            of_post, resume={"M": {"0": text("0" * 16 + "." + "0" * 10)}}
        ),
        "and its post is gone": partial(gone, table=names.POSTS, key={"ref_id": SENT}),
    },
)


def _told(ref_id: str = POST, **otherwise: Any) -> Spoil:
    """A publisher is told something else of a delivery."""
    plain = requests.status

    def status(world: World, publisher: str, wanted: str) -> dict[str, Any] | None:
        answer = plain(world, publisher, wanted)
        return {**answer, **otherwise} if answer and wanted == ref_id else answer

    return lambda _: patch.object(requests, "status", status)


spoil_for(
    ledger.publishers_are_told_what_the_ledger_says,
    {
        "9 segments, and has": _told(segments=9),
        "9 segments_done, and has": _told(segments_done=9),
        "9 delivered, and has": _told(delivered=9),
        "by channel, and was by push": _told(by="channel"),
        "complete later than it was": _told(completed_at=AN_HOUR_LATER),
        "to have taken 9 s": _told(lag_seconds=9),
        "to have 9 followers": _told(SMALL, followers_estimated=9),
        "a lag, and to be under way": _told(ENDED, lag_seconds=9, completed_at=None),
    },
)

# Posts


def told(kind: str, subject: str | None = None, **otherwise: Any) -> Spoil:
    """The first request of this kind was told something else."""

    def spoil(world: World) -> None:
        first = world.history.of(kind, subject=subject)[0]
        for name, value in otherwise.items():
            setattr(first, name, value)

    return spoil


@spoils(ledger.every_post_that_is_shown_is_owed_to_all, "and the ledger does not know it")
@spoils(posts.every_accepted_post_is_delivered_or_visibly_not, "neither known nor")
def the_row_of_a_fanout_gone(world: World) -> None:
    gone(world, names.FANOUTS, {"fanout_id": SENT})


@spoils(posts.nobody_publishes_over_http_faster_than_the_rate, "publishes faster than 1")
def a_rate_that_nobody_keeps(world: World) -> None:
    world.rate = Rate(1, 10**9)


spoil_for(
    posts.a_post_that_was_retracted_first_is_not_delivered,
    {
        "the ledger has it": lambda world: world.observer.retracted.update({SENT: -1}),
        "and accepted afterwards": lambda world: world.observer.retracted.update({POST: -1}),
    },
)
spoil_for(
    posts.only_its_publisher_retracts_a_post_that_exists,
    {
        "was answered 204 about": told("squat", status=204),
        "before it was published": told("retract", ended=-1),
        "not found by its publisher": told("retract", status=404),
        "and never published it": partial(post, ref_id=SENT, publisher_id=text(OTHER)),
    },
)


def _refused(error: Exception) -> Spoil:
    """A follow is refused without reason."""

    def spoil(world: World) -> None:
        with patch.object(FollowsTable, "write", side_effect=error):
            acting(world, "zoe", lambda: requests.relate(world, "follow", "zoe", PUBLISHER))

    return spoil


spoil_for(
    answers.nobody_is_refused_without_reason,
    {
        "was answered 409": _refused(TooManyFollows("One is too many.")),
        "failed with 429": _refused(Contended("The relation changed too often.")),
    },
)


@spoils(answers.nobody_is_refused_without_reason, "failed with 500", "and nothing was in the way")
def a_reader_whom_nothing_is_shown(world: World) -> Any:
    world.faults.injected["throttled"] += 1  # it comes again as 503
    return patch.object(visibility.Reading, "page", None)


@spoils(answers.nobody_is_refused_without_reason, "failed with 503", "and no call had failed")
def a_reader_who_is_to_try_later_without_reason(world: World) -> Any:
    world.faults.injected["skewed"] += 1
    return patch.object(visibility.Reading, "page", side_effect=TryLater("Later."))


@spoils(posts.a_key_stands_for_one_post, "with other times than the stored ones")
@spoils(posts.posts_are_accepted_when_they_were_sent, "was accepted at")
def accepted_at_off_in_the_answer(world: World) -> None:
    world.history.of("publish", subject=POST)[0].answer["accepted_at"] = AN_HOUR_LATER


@spoils(posts.posts_are_accepted_when_they_were_sent, "and was not being sent then")
def accepted_at_off_everywhere(world: World) -> None:
    for change in (fanout, post):
        change(world, SENT, accepted_at=text(AN_HOUR_LATER))


@spoils(posts.a_key_stands_for_one_post, "was accepted with two bodies")
def a_key_for_two_posts(world: World) -> None:
    (first,) = world.history.of("publish", subject=CHANGED)
    world.history.add(replace(first, content={"title": "another"}))


spoil_for(
    posts.a_key_stands_for_one_post,
    {
        "with another body than the stored one": partial(post, ref_id=POST, body=ANOTHER),
        "cannot judge": partial(post, ref_id=POST, sort_key=None),
        "was refused as retracted": told("publish", POST, status=410),
        "was refused for another body": told("publish", POST, status=422),
    },
)
spoil_for(
    rows.posts_are_stored_as_they_were_sent,
    {
        f"{POST} has a body that nobody sent": partial(post, ref_id=POST, body=ANOTHER),
        f"{SENT} has a body that nobody sent": partial(post, ref_id=SENT, body=ANOTHER),
        "another sort key than that of its time": partial(
            post, ref_id=SENT, sort_key=text(f"{AN_HOUR_LATER}#{SENT}")
        ),
        "expires at another time than its retention": partial(post, ref_id=SENT, expires_at=later),
        "and nobody asked for that": partial(post, ref_id=SENT, deleted_at=text(AN_HOUR_LATER)),
        "and still has its content": partial(post, ref_id=RETRACTED, body=text("{}")),
        "of a body that was not published": partial(post, ref_id=POST, first_body_hash=None),
        "ends at another time than its retention": partial(post, ref_id=RETRACTED, expires_at=soon),
    },
)
spoil_for(
    rows.what_was_retracted_leaves_a_tombstone,
    {"and has no tombstone": partial(gone, table=names.POSTS, key={"ref_id": RETRACTED})},
)

# Entries by themselves


@spoils(entries.nobody_gets_what_they_do_not_follow, "has 2 entries of")
@spoils(rows.entries_agree_with_their_fanouts, "under another sort key")
def an_entry_with_a_wrong_sort_key(world: World) -> None:
    entry(world, "ann", POST, sort_key=text(f"{AN_HOUR_LATER}#{POST}"))


def _expiring(at: Any) -> Spoil:
    """An entry that is to expire at another time, or never."""
    return lambda world: changed(
        world, names.TIMELINES, entry_of(world, "ann", POST), expires_at=at
    )


spoil_for(
    rows.entries_agree_with_their_fanouts,
    {
        "of another publisher than": partial(
            entry, user="ann", ref_id=POST, publisher_id=text(OTHER)
        ),
        "of ann expires at another time": _expiring(None),
        "expires at another time than the ledger's": _expiring(later),
    },
)

# What readers are shown


@spoils(shown_posts.every_reading_shows_what_it_should, "sees posts out of order")
def a_reader_who_is_shown_the_oldest_first(world: World) -> Any:
    page = visibility.Reading.page

    def wrong(*arguments: Any, **more: Any) -> Any:
        found = page(*arguments, **more)
        return {**found, "entries": found["entries"][::-1]}

    return patch.object(visibility.Reading, "page", wrong)


@spoils(shown_posts.every_reading_shows_what_it_should, "which was retracted seconds before")
@spoils(shown_posts.timelines_show_what_they_should, "sees retracted posts")
def a_reader_who_is_shown_what_was_retracted(world: World) -> Any:
    def show(_self: Any, entries: Any, _max_posts: int) -> Shown:
        return Shown(
            {each.sort_key: {"edited_at": None, "body": None} for each in entries}, len(entries), 0
        )

    return patch.object(post_cache.Hydration, "show", show)


@spoils(shown_posts.every_reading_shows_what_it_should, "which was retracted seconds before")
def a_post_that_is_shown_until_it_is_retracted_again(world: World) -> None:
    world.clock.advance(10.0)
    with patch.object(post_cache, "_content", lambda _post, _entry: {"body": None}):
        acting(world, "ann", lambda: requests.read(world, "ann"))
    acting(world, PUBLISHER, lambda: requests.retract(world, PUBLISHER, RETRACTED))


def _read(reader: str, **otherwise: Any) -> Spoil:
    """Somebody reads the timeline of ann, and the history tells it otherwise."""

    def spoil(world: World) -> None:
        acting(world, reader, lambda: requests.read(world, "ann"))
        readings = world.history.readings
        readings[-1] = [replace(page, **otherwise) for page in readings[-1]]

    return spoil


spoil_for(
    shown_posts.every_reading_shows_what_it_should,
    {
        "sees a post twice": lambda _: with_newest(lambda found: [*found[:1], *found]),
        "and has no entry of it": _read("zoe", user="zoe"),
        "sees a short page": _read("ann", is_short=True),
    },
)
spoil_for(
    shown_posts.posts_are_shown_as_they_were_sent,
    {"with another body": partial(post, ref_id=POST, body=ANOTHER)},
)
spoil_for(
    shown_posts.timelines_show_what_they_should,
    {"has entries that are not shown": lambda _: with_newest(lambda _found: [])},
)


def _polled(**page: Any) -> Spoil:
    """The second page of a reader upwards has other members."""
    return lambda world: world.history.climbs[0].polls[1].page.update(page)


def a_reader_upwards_who_is_shown_a_page_twice(world: World) -> None:
    climb = world.history.climbs[0]
    climb.polls.insert(1, climb.polls[1])


spoil_for(
    upwards.readers_who_page_upwards_miss_nothing,
    {
        "meets the bound of a page": _polled(partial=True),
        "has a short page": _polled(more=True),
        "that there is no more, and there is": lambda _: patch.object(
            climbs, "finish", lambda _world: None
        ),
        "times": a_reader_upwards_who_is_shown_a_page_twice,
        "and is not shown": _polled(entries=[]),
    },
)

# Work and dead letters


@spoils(work.dead_letters_are_noise_or_were_tried_out, "that was not tried out")
@spoils(operated.only_letters_that_break_the_contract_are_left, "is left")
def a_dead_letter_that_nobody_tried(world: World) -> None:
    world.sqs.send_message(QueueUrl=dlq_url(names.EXPRESS), MessageBody="{}")


@spoils(work.small_faults_need_no_sweep, "repairs that no crash explains")
def a_repair_without_need(world: World) -> None:
    world.observer.repairs += 1


@spoils(work.writes_are_in_proportion, "Without any fault")
def an_entry_put_twice(world: World) -> None:
    world.observer.puts += 1


@spoils(work.writes_are_in_proportion, "With unprocessed items alone")
def entries_put_three_times(world: World) -> None:
    world.faults.injected["partial"] += 1
    world.observer.puts += 100


def _touched(world: World, ref_id: str, times: int) -> None:
    """The row of a fan-out is written in vain: it is refused, and paid for."""
    ledger = stores(world.dynamodb).ledger  # type: ignore[arg-type]
    row = ledger.get(ref_id)
    assert row is not None
    for _ in range(times):
        ledger.touch(row, now=row.accepted_at)


@spoils(work.book_keeping_is_a_few_units, "in 1 segments")
def a_small_post_cut_into_segments(world: World) -> None:
    _touched(world, SMALL, 2)
    fanout(world, SMALL, segments=number(2))


@spoils(work.book_keeping_is_a_few_units, "in 1 segments")
def one_hop_that_costs_as_much_as_two(world: World) -> None:
    assert SMALL in world.observer.at_once
    _touched(world, SMALL, 1)


@spoils(work.stragglers_have_nobody_written_again, "stragglers,")
def an_entry_written_twice_beside_a_straggler(world: World) -> None:
    world.faults.hot = frozenset({"ann"})
    entry(world, "bob", POST)


@spoils(work.stragglers_have_nobody_written_again, "though its stragglers could be written")
def a_straggler_left_behind(world: World) -> None:
    world.faults.hot = frozenset({"ann"})
    fanout(world, POST, state=text("delivering"))


spoil_for(
    work.dead_letters_are_noise_or_were_tried_out,
    {
        "breaks the contract is not a dead letter": lambda world: world.queues.queue(
            dlq_url(names.PUBLISH)
        ).purge()
    },
)
spoil_for(
    work.book_keeping_is_a_few_units,
    {"write units beside its entries": partial(_touched, ref_id=SENT, times=5)},
)

# Edits, and posts apart from timelines


def _edit(content: object = EDITED, **known: Any) -> Spoil:
    """Tell of one more request of the publisher to edit its post."""

    def spoil(world: World) -> None:
        (first, *_) = world.history.edits.of(CHANGED, OTHER)
        world.history.edits.add(Edit(OTHER, CHANGED, content, **{"stamp": first.stamp, **known}))

    return spoil


def _feed(publisher: str, *posts: dict[str, Any]) -> Spoil:
    """Tell of one more reading of a feed."""
    return lambda world: world.history.feeds.append([Page(publisher, 0, list(posts))])


def _shown(ref_id: str, publisher: str) -> dict[str, Any]:
    ids = {"ref_id": ref_id, "publisher_id": publisher}
    return {**ids, "published_at": AN_HOUR_LATER, "edited_at": None, "body": {}}


def _looked(ref_id: str, found: dict[str, Any] | None) -> Spoil:
    """Tell of one more read of a post by itself."""
    return lambda world: world.history.post_reads.append(
        PostRead("ann", ref_id, world.clock.now_ms(), found)
    )


@spoils(edits.edits_are_refused_with_reason, "eve was answered 200 about")
def an_edit_of_somebody_elses_post(world: World) -> None:
    (edit,) = (each for each in world.history.edits.by_post[CHANGED] if each.user == "eve")
    edit.status = 200


@spoils(edits.edits_are_refused_with_reason, "and was not found to be edited")
def a_post_that_is_not_found_to_be_edited(world: World) -> None:
    _edit(status=404, begun=world.scheduler.turns)(world)


@spoils(edits.feeds_show_what_was_published, f"{ENDED} is missing in the feed of")
def a_feed_without_a_stored_post_that_a_person_has_ended_before_it_was_accepted(
    world: World,
) -> None:
    world.history.of("send", subject=ENDED)[0].kind = "publish"
    _feed(PUBLISHER, *(_shown(each, PUBLISHER) for each in sorted((POST, SENT))[::-1]))(world)


spoil_for(
    edits.posts_are_shown_with_their_latest_edit,
    {
        "without its edit of": partial(post, ref_id=CHANGED, edited_at=None),
        "that nobody sent": partial(post, ref_id=CHANGED, edited_at=text(AN_HOUR_LATER)),
        "as of": _edit(stamp=2_000_000_000_000, done_ms=0.0),
    },
)
spoil_for(
    edits.edits_are_refused_with_reason,
    {
        "for a later one, and there was none": _edit(status=409, stamp=2_000_000_000_000),
        "as retracted, and nobody had tried to": _edit(status=410),
    },
)
spoil_for(
    edits.feeds_show_what_was_published,
    {
        "is out of order": _feed(OTHER, _shown(CHANGED, OTHER), _shown(CHANGED, OTHER)),
        "has posts of others": _feed(PUBLISHER, _shown(CHANGED, OTHER)),
        "is missing in the feed of": _feed(OTHER),
        "has retracted posts": _feed(PUBLISHER, _shown(RETRACTED, PUBLISHER)),
    },
)
spoil_for(
    edits.posts_are_found_by_themselves,
    {
        "which was retracted before": _looked(RETRACTED, _shown(RETRACTED, PUBLISHER)),
        "which was accepted before": _looked(CHANGED, None),
    },
)

# Channels


def _channel(**attributes: Any) -> Spoil:
    """Change the channel in the head."""

    def change(channels: Any) -> Any:
        (channel,) = channels["M"].values()
        channel["M"].update(attributes)
        return channels

    return partial(changed, table=names.PUBLISHERS, key={"publisher_id": HEAD}, channels=change)


def _under_another_key(channels: Any) -> Any:
    return {"M": {key_of(OTHER): channel for channel in channels["M"].values()}}


def _in_channel(**attributes: Any) -> Spoil:
    """Change the entry of a post in the channel."""

    def spoil(world: World) -> None:
        key = {**entry_of(world, "ann", POST), "user_id": partition_of(PUBLISHER)}
        changed(world, names.TIMELINES, key, **attributes)

    return spoil


def _reader(user: str, **attributes: Any) -> Spoil:
    """Change a reader's row."""

    def spoil(world: World) -> None:
        row = world.row(names.READERS, keyed({"user_id": user}))
        put(world, names.READERS, **{**row, **attributes})

    return spoil


def an_entry_in_the_channel_of_another(world: World) -> None:
    row = world.row(names.TIMELINES, keyed(entry_of(world, "ann", SMALL)))
    put(world, names.TIMELINES, **{**row, "user_id": text(partition_of(PUBLISHER))})


def _no_mark(world: World) -> None:
    row = world.row(names.READERS, keyed({"user_id": "ann"}))
    del row["channels"]
    put(world, names.READERS, **row)


spoil_for(
    rows.channels_are_in_the_head,
    {
        "ends before its posts": _channel(until=number(1)),
        "The head counts 1 posts of p0, of": _channel(seq=number(1)),
        "is of a later version than the head": _channel(v=number(2**50)),
        "lies under another key than its mark": partial(
            changed, table=names.PUBLISHERS, key={"publisher_id": HEAD}, channels=_under_another_key
        ),
        "and the head does not know it": partial(
            gone, table=names.PUBLISHERS, key={"publisher_id": HEAD}
        ),
        "was told by a later head than there is": partial(
            fanout, ref_id=POST, head_revision=number(2**50)
        ),
    },
    channelled,
)
spoil_for(
    rows.entries_agree_with_their_fanouts,
    {
        "of #p0 expires at another time": _in_channel(expires_at=later),
        "#p0 has sent under another sort key": partial(
            fanout, ref_id=SENT, sort_key=text(f"{AN_HOUR_LATER}#{SENT}")
        ),
        "lies in the channel #p0 of another publisher": an_entry_in_the_channel_of_another,
    },
    channelled,
)
spoil_for(
    follows.readers_know_the_channels_of_whom_they_follow,
    {
        "ann knows channels up to": _reader("ann", channels_seen=number(2**50)),
        "fay has a mark of the channel of p0": _reader(
            "fay", channels={"BS": [marks.hash_of(PUBLISHER)]}
        ),
        "ann follows p0, and has no mark": _no_mark,
    },
    channelled,
)

# Operators


@spoils(
    operated.the_doctor_finds_only_what_accidents_did,
    "missing, without",
    "unreachable, without",
    "finds Miscount(user_id='ann'",
)
def differences_without_an_accident(world: World) -> None:
    report = world.first_examination
    follow = Follow(user_id="ann", publisher_id=PUBLISHER, state=FOLLOWED, version=1)
    report.add(Snapshot(follow, {}))
    report.add_unreachable(Unreachable(PUBLISHER, level=0, seen=1))
    report.add_miscount(Miscount("ann", Counts(2), Counts(1)))


@spoils(observed, "An operator deletes a letter that is nowhere else")
def a_letter_deleted_at_once(world: World) -> None:
    url = dlq_url(names.PUBLISH)
    (letter,) = world.sqs.receive_message(QueueUrl=url)["Messages"]
    entry = {"Id": "0", "ReceiptHandle": letter["ReceiptHandle"]}
    world.letters.before("delete_message_batch", {"QueueUrl": url, "Entries": [entry]}, [])


@spoils(observed, "An operator sends a letter that would count as new")
def an_event_sent_after_a_month(world: World) -> None:
    body = json.dumps({"type": contract.FOLLOW_ADDED})
    first = {"StringValue": str(world.clock.now_ms() - 29 * 24 * 60 * 60 * 1000)}
    message = {"MessageBody": body, "MessageAttributes": {"first_sent_at": first}}
    world.letters.before("send_message_batch", {"Entries": [message]}, [])


@spoils(observed, "A message of PublishDlq cannot be traced to its first one")
def a_letter_that_names_no_message(world: World) -> None:
    reason = {"DataType": "String", "StringValue": "No."}
    world.sqs.send_message(
        QueueUrl=dlq_url(names.PUBLISH), MessageBody="{}", MessageAttributes={"reason": reason}
    )


spoil_for(
    operated.the_doctor_finds_nothing_after_its_repair,
    {"The doctor ends with": partial(without_edge, user="ann")},
)

# What shows only while it happens


def _update(**sets: Any) -> Spoil:
    """SWEEP changes the row of a fan-out, without any condition."""

    def act() -> None:
        BotoClient("dynamodb", 1).update_item(
            TableName=names.FANOUTS.name, Key=keyed({"fanout_id": POST}), **expressions(sets=sets)
        )

    return lambda world: acting(world, "sweep", act)


def _order(actor: str, **fields: Any) -> Spoil:
    """Somebody sends an order to the express lane."""
    order = DeliverSegment(**{"fanout_id": POST, "segment": 0, "segments": 1, **fields})
    entries = [{"Id": "0", "MessageBody": json.dumps(order.message(group="g").content)}]

    def spoil(world: World) -> None:
        def act() -> None:
            url = queue_url(names.EXPRESS)
            BotoClient("sqs", 1).send_message_batch(QueueUrl=url, Entries=entries)
            world.triggers.paused.clear()

        acting(world, actor, act)

    return spoil


def _entries_of_plan(
    world: World, *users: str, seconds: float = 0.0, expires_at: int = 1 << 31
) -> None:
    """PLAN writes entries, and nothing has asked it to."""
    sort_key = world.row(names.FANOUTS, keyed({"fanout_id": POST}))["sort_key"]

    def act() -> None:
        for user in users:
            item = {
                "user_id": text(user),
                "sort_key": sort_key,
                "publisher_id": text(PUBLISHER),
                "expires_at": number(expires_at),
            }
            items = {names.TIMELINES.name: [{"PutRequest": {"Item": item}}]}
            BotoClient("dynamodb", 1).batch_write_item(RequestItems=items)
            world.scheduler.sleep(seconds)

    acting(world, "plan on Publish", act)


@spoils(observed, "whose message comes again", "whose post it did not find")
def entries_of_plan_that_nobody_asked_for(world: World) -> None:
    _entries_of_plan(world, "ann")


@spoils(observed, "SWEEP has made 17 asks of")
def a_question_too_many(world: World) -> None:
    fanout(world, POST, asks=number(16))
    _update(asked_at=number(1), asks=number(17))(world)


@spoils(observed, "SWEEP asks about")
def a_question_too_soon(world: World) -> None:
    asked = world.clock.now_ms() - 3 * 420_000
    fanout(world, POST, state=text("delivering"), asks=number(3), asked_at=number(asked))
    _update(asked_at=number(asked + 1), asks=number(4))(world)


@spoils(observed, "up, and all of it waits")
def a_fanout_given_up_that_waits(world: World) -> None:
    fanout(world, POST, state=text("delivering"), pending={"NS": ["0"]}, asks=number(16))
    order = DeliverSegment(fanout_id=POST, segment=0, segments=1).message(group="g").content
    world.sqs.send_message(
        QueueUrl=queue_url(names.EXPRESS), MessageBody=json.dumps(order), DelaySeconds=60
    )
    _update(state=text("stalled"))(world)


@spoils(observed, "The invariant post_key is broken")
def a_post_with_the_key_of_another(world: World) -> None:
    post(world, POST, sort_key=text(f"{AN_HOUR_LATER}#another"))
    table = stores(BotoClient("dynamodb", 1)).posts  # type: ignore[arg-type]
    acting(world, "client", lambda: table.one(POST))


@spoils(observed, "which is paused")
def an_order_of_sweep_to_a_paused_lane(world: World) -> None:
    world.triggers.paused.add(names.EXPRESS.name)
    _order("sweep")(world)


@spoils(observed, "fails, and nothing has failed it")
def a_worker_that_fails_by_itself(world: World) -> None:
    with patch.object(Ledger, "wanted", side_effect=RuntimeError):
        _order("client")(world)


@spoils(observed, "is stalled, and has just made progress")
def progress_that_does_not_reopen_a_stalled_fanout(world: World) -> None:
    fanout(world, POST, state=text("stalled"), pending={"NS": ["0"]})
    world.observer.written.clear()
    segments = int(world.row(names.FANOUTS, keyed({"fanout_id": POST}))["segments"]["N"])
    with patch.object(Ledger, "finish_segment", return_value=None):
        _order("client", segments=segments)(world)


@spoils(observed, "is sent that the ledger does not know")
def a_rest_that_is_not_stored(world: World) -> None:
    fanout(world, POST, state=text("delivering"), pending={"NS": ["0"]})
    _order("client", position="8" * 16)(world)


@spoils(observed, "entries than 2.0 a second")
def a_worker_that_writes_too_fast(world: World) -> None:
    world.worker_rate = 2.0
    like = world.row(names.TIMELINES, keyed(entry_of(world, "ann", POST)))
    puts = [{"PutRequest": {"Item": {**like, "user_id": text(f"u{n}")}}} for n in range(25)]

    def act() -> None:
        for _ in range(2):
            items = {names.TIMELINES.name: puts}
            BotoClient("dynamodb", 1).batch_write_item(RequestItems=items)

    acting(world, "deliver on Bulk", act)


def _levels(*levels: int) -> Spoil:
    """A door stores one level of a publisher after another."""

    def spoil(world: World) -> None:
        table = stores(BotoClient("dynamodb", 1)).publishers  # type: ignore[arg-type]

        def act() -> None:
            world.scheduler.current.environment = "door"
            for level in levels:
                seen = table.shards(PUBLISHER)
                now_ms, version = world.clock.now_ms(), seen.version + 1
                changed = replace(seen, level=level, version=version, last_updated=now_ms)
                table.update(PUBLISHER, seen=seen, shards=changed)

        acting(world, "client", act)

    return spoil


spoil_for(
    observed,
    {
        "which have expired": lambda world: _entries_of_plan(
            world, "ann", expires_at=world.clock.now_ms() // 1000 - 86_400
        ),
        "for 20.0 s": lambda world: _entries_of_plan(world, "ann", "bob", seconds=20.0),
        "than a segment has": lambda world: _entries_of_plan(world, *FOLLOWERS),
        "SWEEP counts the asks of": _update(asked_at=number(1), asks=number(2)),
        "up too early": _update(state=text("stalled")),
        "before it notes it": _order("sweep"),
        "that others planned": _order("plan on Publish"),
        "is sent, unknown to the ledger": _order("client", fanout_id="unknown"),
        "grows for a throttle of nothing": _levels(1),
        "follows of its own": _levels(1),
        "ms after its last growth": _levels(1, 2),
        "falls from level 1 to 0": _levels(1, 0),
    },
)

# What has to be told


def _watched(spoil: Spoil, minutes: int = 45) -> Spoil:
    """Look at the spoiled world every minute."""

    def spoil_and_look(world: World) -> None:
        spoil(world)
        liveness = Liveness(Watch(world))
        for _ in range(minutes):
            world.clock.advance(60.0)
            liveness.watch.minute += 1
            liveness.look()

    return spoil_and_look


delivering_in_two: dict[str, Any] = {"state": text("delivering"), "segments": number(2)}
spoil_for(
    alarms.a_late_post_rings_its_alarm,
    {
        f"{POST} (small) is late in minute": _watched(
            partial(of_post, state=text("queued"), segments=None)
        ),
        # It has been small since before anybody looked, though the ledger calls it large.
        f"{SMALL} (small) is late in minute": _watched(
            partial(fanout, ref_id=SMALL, **delivering_in_two), minutes=20
        ),
        "(large) is late in minute": _watched(partial(of_post, **delivering_in_two)),
        "(stalled) is late in minute": _watched(partial(of_post, state=text("stalled"))),
        "(not in the ledger) is late in minute": _watched(
            partial(gone, table=names.FANOUTS, key={"fanout_id": POST})
        ),
        "minutes, and ann lacks it": _watched(a_missing_entry),
    },
)


spoil_for(
    alarms.a_calm_world_rings_no_alarm,
    {"and nothing is wrong": lambda world: Watch(world).first_rang.update(ExpressLate=7)},
)


# Nobody has listened to what the functions of this world reported.
spoil_for(
    alarms.a_calm_world_reports_how_long_each_delivery_took,
    {"and nobody has reported how long they took": lambda world: Watch(world).first_rang.clear()},
)


@spoils(observed, "A delivery took 7.0 s by a report, and none did")
def a_report_of_no_delivery(world: World) -> None:
    Watch(world).emitted("plan", {names.DELIVERY_SECONDS: {"Value": [7.0]}}, {})


def _slow(ref_id: str, segments: int) -> Spoil:
    """A post in `segments` has taken a minute more beside a celebrity."""

    def spoil(world: World) -> None:
        world.story = "celebrity"
        fanout(world, ref_id, segments=number(segments))
        for operation in world.history.of("publish", "send"):
            operation.ended_ms -= 60_000

    return spoil


spoil_for(
    alarms.a_small_post_waits_for_no_celebrity,
    {"beside a celebrity": _slow(POST, 1), f"{SMALL} took": _slow(SMALL, 2)},
)

# Audits


def a_lost_segment(world: World) -> None:
    for user in FOLLOWERS[:3]:
        gone(world, names.TIMELINES, entry_of(world, user, POST))


def a_wrong_complete(world: World) -> None:
    for user in FOLLOWERS[:5]:
        gone(world, names.TIMELINES, entry_of(world, user, POST))


def an_edge_that_was_missing_at_the_publish(world: World) -> None:
    """For so long that RELATE has no order left that could bring it."""
    a_missing_entry(world)
    without_edge(world, "ann")
    follow(world, "ann", changed_at=number(world.clock.now_ms() - 40 * 86_400_000))


def an_overlooked_channel(world: World) -> None:
    fanout(world, POST, by=text("channel"))
    row = {"id": text(PUBLISHER), "v": number(5), "seq": number(1), "followers": number(5)}
    head = {"version": number(5), "revision": number(1)}
    channels = {"M": {key_of(PUBLISHER): {"M": row}}}
    put(world, names.PUBLISHERS, publisher_id=text(HEAD), channels=channels, **head)
    entry(world, partition_of(PUBLISHER), POST)
    changed(world, names.READERS, {"user_id": "ann"}, channels_seen=number(5))


def an_unfollow_without_a_mark(world: World) -> None:
    entry(world, "fay", POST)
    row = world.row(names.READERS, keyed({"user_id": "fay"}))
    marks = {name: None for name in row if name.startswith("hidden_")}
    assert marks
    changed(world, names.READERS, {"user_id": "fay"}, **marks)


spoil_for(
    audit.an_audit_finds_nothing,
    {
        f"entry_missing of {POST} for ann": a_missing_entry,
        f"entry_missing of {POST} for cy": a_lost_segment,
        f"entry_missing of {POST} for eve": a_wrong_complete,
        f"edge_missing of {POST} for ann": an_edge_that_was_missing_at_the_publish,
        f"overlooked of {POST} for ann": an_overlooked_channel,
        "unfollowed of": an_unfollow_without_a_mark,
        "post_missing of": partial(gone, table=names.POSTS, key={"ref_id": POST}),
        "anothers of": partial(post, ref_id=POST, publisher_id=text(OTHER)),
    },
)

# The tests

for each in ("spoiled_readings", "spoiled_audiences"):  # they register their spoilings
    importlib.import_module(f"tests.simulation.{each}")
CHECKS = {check.__name__: check for kind in KINDS if kind.make is World for check in kind.checks}


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed():
        yield


def violations(world: World) -> list[str]:
    """What all checks of all kinds say, but what is right to say of a world without faults."""
    return judge.violations(world, CHECKS.values())


@pytest.mark.parametrize("lived", [settled, channelled])
def test_nothing_is_wrong_with_the_world_before_it_is_spoiled(lived: Callable[[], World]) -> None:
    world = lived()
    assert violations(world) == []
    assert {NOISE} == {message.body for _, message in world.dead_letters()}


@pytest.mark.thorough
def test_every_spoiling_is_noticed_and_every_sentence_is_said() -> None:
    said: list[str] = []
    unnoticed: list[str] = []
    for spoiling in SPOILINGS:
        world = spoiling.world()
        with spoiling.spoil(world) or nullcontext():
            found = judge.violations(world, [CHECKS[spoiling.check]])
        if not any(spoiling.says in line for line in found):
            unnoticed.append(f"{spoiling.check}: {spoiling.says} (said: {found})")
        said += found
    assert not unnoticed, "\n".join(unnoticed)
    unsaid = [
        f"{place}: {pattern}"
        for place, pattern in sentences()
        if not any(re.search(pattern, line) for line in said)
    ]
    assert not unsaid, "Spoil a world so that each of these is said."


@pytest.mark.parametrize("lose", [a_missing_entry, a_lost_segment, a_wrong_complete])
def test_an_audit_with_repair_makes_a_world_sound_that_has_lost_entries(lose: Spoil) -> None:
    world = settled()
    before = world.rows(names.TIMELINES)
    lose(world)
    lost = len(before) - len(world.rows(names.TIMELINES))
    assert lost
    puts = world.observer.puts
    codes: list[int | None] = []

    def run(*, repair: bool) -> None:
        command = partial(audit_command.audit, post=POST, repair=repair, as_json=True)
        codes.append(commands.run(world, Random(0), command))

    with commands.installed():
        for repair in (False, True, False):
            world.go_on(partial(run, repair=repair))
    assert codes == [1, 0, 0]
    assert world.rows(names.TIMELINES) == before
    assert world.observer.puts == puts + lost
    assert world.row(names.FANOUTS, keyed({"fanout_id": POST}))["repaired"] == number(lost)
    # What the loss and its repair took is not in proportion to the posts.
    paid = (work.writes_are_in_proportion, work.stragglers_have_nobody_written_again)
    others = [check for check in CHECKS.values() if check not in paid]
    assert judge.violations(world, others) == []


def test_every_check_has_a_spoiling() -> None:
    assert CHECKS.keys() == {each.check for each in SPOILINGS}


def sentences(paths: Iterable[Path] = SAID_IN) -> Iterator[tuple[str, str]]:
    """Each sentence of a violation in the sources: its place, and a pattern that it matches."""
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            said: ast.expr | None = None
            match node:
                case ast.Yield():
                    said = node.value
                case ast.Call(func=ast.Attribute(value=called, attr="append")):
                    said = node.args[0] if "violations" in ast.unparse(called) else None
            if isinstance(said, ast.JoinedStr):
                parts = (
                    re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*"
                    for part in said.values
                )
                yield f"{path.name}:{said.lineno}", "".join(parts)

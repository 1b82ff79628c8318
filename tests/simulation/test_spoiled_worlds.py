"""Every check fires: for each sentence that one can say, a world is spoiled, and it says so.

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
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import contract, names
from fanfold.aws.items import expressions
from fanfold.doctor.findings import Snapshot, Unreachable
from fanfold.errors import Contended, TooManyFollows, TryLater
from fanfold.fanout.ledger import Ledger
from fanfold.follows import ring
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.wishes import FOLLOWED, Follow
from fanfold.messages import DeliverSegment
from fanfold.rates import Rate
from fanfold.timeline import read
from fanfold.timeline.entries import Entries
from fanfold.timeline.picking import Shown
from simulation import climbs, requests
from simulation.checks import (
    alarms,
    answers,
    edits,
    entries,
    follows,
    judge,
    lanes,
    ledger,
    operated,
    posts,
    rows,
    timelines,
    weeks,
    work,
)
from simulation.checks import climbs as climb_checks
from simulation.clients import BotoClient
from simulation.edits import Edit
from simulation.history import Look, Page
from simulation.kinds import broken
from simulation.kinds.drawn import KINDS
from simulation.lambdas import dlq_url, installed, queue_url
from simulation.liveness import Liveness
from simulation.watch import Watch
from simulation.wishes import Change
from simulation.world import World
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
    acting,
    changed,
    edge,
    edge_of,
    entry,
    entry_of,
    fanout,
    gone,
    keyed,
    later,
    number,
    post,
    put,
    settled,
    spoils,
    text,
)

SIMULATION = Path(judge.__file__).parent.parent
# Where sentences of violations are said.
SAID_IN = (
    *sorted(set((SIMULATION / "checks").glob("*.py")) - {Path(weeks.__file__)}),  # test_weeks.py
    *sorted((SIMULATION / "kinds").glob("*.py")),
    *(
        SIMULATION / name
        for name in ("letters.py", "levels.py", "liveness.py", "observers.py", "sweeps.py")
    ),
)
observed = judge.nothing_was_observed_during_the_run
AN_HOUR_LATER = "2026-11-20T19:00:00.000Z"

# Entries


@spoils(entries.nobody_gets_what_they_do_not_follow, "which nobody has published")
def an_entry_of_a_post_that_nobody_published(world: World) -> None:
    entry(world, "ann", POST, sort_key=text(f"{AN_HOUR_LATER}#nobodys"))


@spoils(timelines.posts_are_shown_as_they_were_sent, "which nobody has published")
def a_post_that_nobody_published(world: World) -> None:
    sort_key = text(f"{AN_HOUR_LATER}#nobodys")
    entry(world, "ann", POST, sort_key=sort_key)
    like = world.row(names.POSTS, keyed({"ref_id": POST}))
    put(world, names.POSTS, **{**like, "ref_id": text("nobodys"), "sort_key": sort_key})


@spoils(entries.nobody_gets_what_they_do_not_follow, "and never asked to follow")
def an_entry_of_somebody_who_never_followed(world: World) -> None:
    entry(world, "zoe", POST)


@spoils(entries.no_acknowledged_follower_is_missed, "and has no entry of")
def a_missing_entry(world: World) -> None:
    gone(world, names.TIMELINES, entry_of(world, "ann", POST))


@spoils(entries.nobody_gets_what_they_do_not_follow, f"and has {POST}")
def an_entry_of_somebody_who_has_unfollowed(world: World) -> None:
    entry(world, "fay", POST)


@spoils(entries.a_last_post_reaches_every_follower_once, "wrong about")
@spoils(rows.edges_lie_where_they_are_read, "lies above the publisher's level")
def an_edge_at_a_level_that_nobody_reads(world: World) -> None:
    edge(world, "ann", level=3)


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


@spoils(follows.edges_agree_with_the_lists_of_follows, "in the place of")
def a_missing_edge(world: World) -> None:
    row = edge_of(world, "ann", PUBLISHER)
    gone(world, names.FOLLOWERS, {name: row[name]["S"] for name in ("shard_id", "edge")})


@spoils(follows.edges_agree_with_the_lists_of_follows, "The count of follows of ann is not 2")
def a_count_of_follows_that_is_off(world: World) -> None:
    changed(world, names.READERS, {"user_id": "ann"}, follows=number(3))


@spoils(rows.follows_are_kept, "and has no row")
@spoils(follows.lists_of_follows_are_what_was_asked_for, "is not in the list of ann")
def an_acknowledged_follow_gone_whole(world: World) -> None:
    a_missing_edge(world)
    gone(world, names.FOLLOWING, {"user_id": "ann", "publisher_id": PUBLISHER})


@spoils(rows.follows_are_kept, "and has no row")
def a_tombstone_of_a_follow_removed(world: World) -> None:
    gone(world, names.FOLLOWING, {"user_id": "fay", "publisher_id": PUBLISHER})


@spoils(follows.lists_of_follows_are_what_was_asked_for, "p0 is in the list of fay")
def a_follow_that_nobody_asked_for(world: World) -> None:
    key = {"user_id": "fay", "publisher_id": PUBLISHER}
    changed(world, names.FOLLOWING, key, state=text("followed"))


@spoils(follows.edges_agree_with_the_lists_of_follows, "does not agree with the list")
def a_list_that_leaves_a_follow_out(world: World) -> Any:
    return patch.object(FollowsTable, "page", lambda *_, **__: ([], False))


@spoils(follows.follows_change_as_they_were_asked_to, "no order of the wishes explains")
def a_change_that_nobody_asked_for(world: World) -> None:
    world.observer.changes["ann", PUBLISHER].append(Change(world.clock.now_ms(), False))


@spoils(rows.follows_are_kept, "never expires")
def a_tombstone_without_an_end(world: World) -> None:
    key = {"user_id": "fay", "publisher_id": PUBLISHER}
    changed(world, names.FOLLOWING, key, expires_at=None)


@spoils(rows.follows_are_kept, "is to expire")
def a_follow_with_an_end(world: World) -> None:
    key = {"user_id": "ann", "publisher_id": PUBLISHER}
    changed(world, names.FOLLOWING, key, expires_at=number(1))


@spoils(rows.edges_lie_where_they_are_read, "lies where it does not belong")
def an_edge_at_the_position_of_another_user(world: World) -> None:
    edge(world, "ann", edge=text(f"{ring.position('bob')}#ann"))


@spoils(follows.edges_agree_with_the_lists_of_follows, "has an edge of version 9")
def an_edge_of_a_newer_version(world: World) -> None:
    edge(world, "ann", version=number(9))


@spoils(follows.edges_agree_with_the_lists_of_follows, "has an edge of version 0")
def an_edge_of_an_older_version(world: World) -> None:
    edge(world, "ann", version=number(0))


# The ledger


@spoils(ledger.the_ledger_is_right, "is complete, and has something pending")
def complete_with_a_pending_segment(world: World) -> None:
    fanout(world, POST, pending={"NS": ["0"]})


@spoils(ledger.the_ledger_is_right, "entries, and the ledger says")
def delivered_off_by_one(world: World) -> None:
    row = world.row(names.FANOUTS, keyed({"fanout_id": POST}))
    fanout(world, POST, delivered=later(row["delivered"]))


@spoils(ledger.the_ledger_is_right, "is complete and in the index 'stalled'")
def complete_and_still_in_the_index_of_stalled_ones(world: World) -> None:
    fanout(world, POST, stalled_fanout=text(POST))


@spoils(ledger.the_ledger_is_right, "is abandoned and in the index 'open'")
def abandoned_and_still_open(world: World) -> None:
    fanout(world, ENDED, open_fanout=text(ENDED))


@spoils(ledger.the_ledger_is_right, "is queued and not in the index 'open'")
@spoils(posts.every_accepted_post_is_delivered_or_visibly_not, "long after the last fault")
def open_where_nobody_looks(world: World) -> None:
    fanout(world, POST, state=text("queued"))


@spoils(ledger.the_ledger_is_right, "is stalled and not in the index 'stalled'")
@spoils(broken.what_was_sent_again_is_delivered, "was sent again, and is stalled")
def stalled_where_nobody_looks(world: World) -> None:
    world.was_sent_again = True
    fanout(world, POST, state=text("stalled"))


@spoils(posts.every_accepted_post_is_delivered_or_visibly_not, "has expired too early")
def expired_too_early(world: World) -> None:
    fanout(world, POST, state=text("expired"))


@spoils(ledger.what_an_operator_ended_stays_ended, "was abandoned, and is complete")
def an_abandoned_one_complete(world: World) -> None:
    fanout(world, ENDED, state=text("complete"))


@spoils(ledger.what_an_operator_ended_stays_ended, "is abandoned, and nobody did that")
@spoils(posts.every_accepted_post_is_delivered_or_visibly_not, "is abandoned, and nobody did")
def abandoned_by_nobody(world: World) -> None:
    fanout(world, POST, state=text("abandoned"))


@spoils(rows.fanouts_agree_with_their_posts, "another accepted_at in the ledger")
def accepted_at_off_in_the_ledger(world: World) -> None:
    fanout(world, POST, accepted_at=text("2026-11-20T18:00:30.000Z"))


@spoils(rows.fanouts_agree_with_their_posts, "another publisher_id in the ledger")
def another_publisher_in_the_ledger(world: World) -> None:
    fanout(world, POST, publisher_id=text(OTHER))


@spoils(rows.fanouts_agree_with_their_posts, "another sort_key in the ledger")
def another_sort_key_in_the_ledger(world: World) -> None:
    fanout(world, POST, sort_key=text(f"{AN_HOUR_LATER}#{POST}"))


@spoils(rows.fanouts_agree_with_their_posts, "expires at another time than its post")
def a_fanout_that_expires_early(world: World) -> None:
    row = world.row(names.FANOUTS, keyed({"fanout_id": POST}))
    fanout(world, POST, expires_at=later(row["expires_at"]))


@spoils(rows.fanouts_agree_with_their_posts, "are to expire at another time")
def entries_that_are_to_expire_late(world: World) -> None:
    row = world.row(names.FANOUTS, keyed({"fanout_id": POST}))
    fanout(world, POST, entries_expire_at=later(row["entries_expire_at"]))


@spoils(rows.fanouts_agree_with_their_posts, "does not say since when")
def complete_without_a_time(world: World) -> None:
    fanout(world, POST, completed_at=None)


@spoils(rows.fanouts_agree_with_their_posts, "was complete before it was accepted")
def complete_too_early(world: World) -> None:
    fanout(world, POST, completed_at=text("2026-11-20T17:00:00.000Z"))


@spoils(rows.fanouts_agree_with_their_posts, "and has something to resume")
def complete_with_a_resume(world: World) -> None:
    fanout(world, POST, resume={"M": {"0": text("0" * 16 + "." + "0" * 10)}})


@spoils(rows.fanouts_agree_with_their_posts, "and its post is gone")
def the_row_of_a_post_gone(world: World) -> None:
    gone(world, names.POSTS, {"ref_id": SENT})


# Posts


@spoils(ledger.every_post_that_is_shown_is_owed_to_all, "and the ledger does not know it")
@spoils(posts.every_accepted_post_is_delivered_or_visibly_not, "neither known nor")
def the_row_of_a_fanout_gone(world: World) -> None:
    gone(world, names.FANOUTS, {"fanout_id": SENT})


@spoils(posts.nobody_publishes_over_http_faster_than_the_rate, "publishes faster than 1")
def a_rate_that_nobody_keeps(world: World) -> None:
    world.rate = Rate(1, 10**9)


@spoils(posts.a_post_that_was_retracted_first_is_not_delivered, "the ledger has it")
def a_post_by_message_behind_its_tombstone(world: World) -> None:
    world.observer.retracted[SENT] = -1


@spoils(posts.a_post_that_was_retracted_first_is_not_delivered, "and accepted afterwards")
def a_post_by_request_behind_its_tombstone(world: World) -> None:
    world.observer.retracted[POST] = -1


@spoils(posts.only_its_publisher_retracts_a_post_that_exists, "was answered 204 about")
def a_squatter_who_succeeds(world: World) -> None:
    world.history.of("squat")[0].status = 204


@spoils(posts.only_its_publisher_retracts_a_post_that_exists, "before it was published")
def a_retraction_of_nothing_that_succeeds(world: World) -> None:
    world.history.of("retract")[0].ended = -1


@spoils(posts.only_its_publisher_retracts_a_post_that_exists, "not found by its publisher")
def a_retraction_that_finds_nothing(world: World) -> None:
    world.history.of("retract")[0].status = 404


@spoils(posts.only_its_publisher_retracts_a_post_that_exists, "and never published it")
def another_publisher_of_the_post(world: World) -> None:
    post(world, SENT, publisher_id=text(OTHER))


@spoils(posts.a_key_stands_for_one_post, "cannot judge")
def a_post_without_its_sort_key(world: World) -> None:
    changed(world, names.POSTS, {"ref_id": POST}, sort_key=None)


@spoils(answers.nobody_is_refused_without_reason, "was answered 409")
def a_follow_refused_without_reason(world: World) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise TooManyFollows("One is too many.")

    with patch.object(FollowsTable, "follow", refuse):
        acting(world, "zoe", lambda: requests.relate(world, "follow", "zoe", PUBLISHER))


@spoils(answers.nobody_is_refused_without_reason, "failed with 429")
def a_follow_that_contends_with_nobody(world: World) -> None:
    def contend(*_: Any, **__: Any) -> None:
        raise Contended("The relation changed too often.")

    with patch.object(FollowsTable, "follow", contend):
        acting(world, "zoe", lambda: requests.relate(world, "follow", "zoe", PUBLISHER))


@spoils(answers.nobody_is_refused_without_reason, "failed with 500", "and nothing was in the way")
def a_reader_whom_nothing_is_shown(world: World) -> Any:
    world.faults.injected["throttled"] += 1  # it comes again as 503
    return patch.object(read.Reading, "page", None)


@spoils(answers.nobody_is_refused_without_reason, "failed with 503", "and no call had failed")
def a_reader_who_is_to_try_later_without_reason(world: World) -> Any:
    world.faults.injected["skewed"] += 1
    return patch.object(read.Reading, "page", side_effect=TryLater("Later."))


@spoils(posts.a_key_stands_for_one_post, "was refused as retracted")
def a_repeat_refused_as_retracted(world: World) -> None:
    world.history.of("publish", subject=POST)[0].status = 410


@spoils(posts.a_key_stands_for_one_post, "was refused for another body")
def a_publish_refused_without_reason(world: World) -> None:
    world.history.of("publish", subject=POST)[0].status = 422


@spoils(posts.a_key_stands_for_one_post, "with other times than the stored ones")
@spoils(posts.posts_are_accepted_when_they_were_sent, "was accepted at")
def accepted_at_off_in_the_answer(world: World) -> None:
    world.history.of("publish", subject=POST)[0].answer["accepted_at"] = AN_HOUR_LATER


@spoils(posts.a_key_stands_for_one_post, "with another body than the stored one")
@spoils(rows.posts_are_stored_as_they_were_sent, "has a body that nobody sent")
@spoils(timelines.posts_are_shown_as_they_were_sent, "with another body")
def another_body(world: World) -> None:
    post(world, POST, body=text('{"title":"another"}'))


@spoils(rows.posts_are_stored_as_they_were_sent, "has a body that nobody sent")
def another_body_of_a_post_by_message(world: World) -> None:
    post(world, SENT, body=text('{"title":"another"}'))


@spoils(posts.posts_are_accepted_when_they_were_sent, "and was not being sent then")
def accepted_at_off_everywhere(world: World) -> None:
    for change in (fanout, post):
        change(world, SENT, accepted_at=text(AN_HOUR_LATER))


@spoils(rows.posts_are_stored_as_they_were_sent, "another sort key than that of its time")
def another_sort_key_of_the_post(world: World) -> None:
    post(world, SENT, sort_key=text(f"{AN_HOUR_LATER}#{SENT}"))


@spoils(rows.posts_are_stored_as_they_were_sent, "expires at another time than its retention")
def a_post_that_expires_late(world: World) -> None:
    row = world.row(names.POSTS, keyed({"ref_id": SENT}))
    post(world, SENT, expires_at=later(row["expires_at"]))


@spoils(rows.posts_are_stored_as_they_were_sent, "and nobody asked for that")
def retracted_by_nobody(world: World) -> None:
    post(world, SENT, deleted_at=text(AN_HOUR_LATER))


@spoils(rows.posts_are_stored_as_they_were_sent, "and still has its content")
def retracted_with_its_body(world: World) -> None:
    post(world, RETRACTED, body=text("{}"))


@spoils(rows.what_was_retracted_leaves_a_tombstone, "and has no tombstone")
def a_tombstone_of_a_post_removed(world: World) -> None:
    gone(world, names.POSTS, {"ref_id": RETRACTED})


# Entries by themselves


@spoils(entries.nobody_gets_what_they_do_not_follow, "has 2 entries of")
@spoils(rows.entries_agree_with_their_fanouts, "under another sort key")
def an_entry_with_a_wrong_sort_key(world: World) -> None:
    entry(world, "ann", POST, sort_key=text(f"{AN_HOUR_LATER}#{POST}"))


@spoils(rows.entries_agree_with_their_fanouts, "of another publisher than")
def an_entry_of_another_publisher(world: World) -> None:
    entry(world, "ann", POST, publisher_id=text(OTHER))


@spoils(rows.entries_agree_with_their_fanouts, "expires at another time")
def an_entry_that_never_expires(world: World) -> None:
    key = entry_of(world, "ann", POST)
    changed(world, names.TIMELINES, key, expires_at=None)


@spoils(rows.entries_agree_with_their_fanouts, "expires at another time")
def an_entry_that_expires_late(world: World) -> None:
    row = world.row(names.TIMELINES, keyed(entry_of(world, "ann", POST)))
    entry(world, "ann", POST, expires_at=later(row["expires_at"]))


# What readers are shown


def _newest(change: Callable[[list[Any]], list[Any]]) -> Any:
    """Have a page's entries changed."""
    newest = Entries.newest

    def wrong(self: Entries, *arguments: Any, **more: Any) -> Any:
        found, has_more = newest(self, *arguments, **more)
        return change(found), has_more

    return patch.object(Entries, "newest", wrong)


@spoils(timelines.every_reading_shows_what_it_should, "sees posts out of order")
def a_reader_who_is_shown_the_oldest_first(world: World) -> Any:
    page = read.Reading.page

    def wrong(*arguments: Any, **more: Any) -> Any:
        found = page(*arguments, **more)
        return {**found, "entries": found["entries"][::-1]}

    return patch.object(read.Reading, "page", wrong)


@spoils(timelines.every_reading_shows_what_it_should, "sees a post twice")
def a_reader_who_is_shown_a_post_twice(world: World) -> Any:
    return _newest(lambda found: [*found[:1], *found])


@spoils(timelines.every_reading_shows_what_it_should, "which was retracted seconds before")
@spoils(timelines.timelines_show_what_they_should, "sees retracted posts")
def a_reader_who_is_shown_what_was_retracted(world: World) -> Any:
    def show(_self: Any, entries: Any, _max_posts: int) -> Shown:
        return Shown(
            {each.sort_key: {"edited_at": None, "body": None} for each in entries}, len(entries), 0
        )

    return patch.object(read.Hydration, "show", show)


@spoils(timelines.every_reading_shows_what_it_should, "which was retracted seconds before")
def a_post_that_is_shown_until_it_is_retracted_again(world: World) -> None:
    world.clock.advance(10.0)
    with patch.object(read, "_content", lambda _post, _entry: {"body": None}):
        acting(world, "ann", lambda: requests.read(world, "ann"))
    acting(world, PUBLISHER, lambda: requests.retract(world, PUBLISHER, RETRACTED))


@spoils(timelines.every_reading_shows_what_it_should, "and has no entry of it")
def a_reader_who_is_shown_the_timeline_of_another(world: World) -> None:
    acting(world, "zoe", lambda: requests.read(world, "ann"))
    world.history.readings[-1] = [replace(page, user="zoe") for page in world.history.readings[-1]]


@spoils(timelines.timelines_show_what_they_should, "has entries that are not shown")
def a_reader_who_is_shown_nothing(world: World) -> Any:
    return _newest(lambda _found: [])


@spoils(timelines.every_reading_shows_what_it_should, "sees a short page")
def a_reader_with_a_short_page(world: World) -> None:
    acting(world, "ann", lambda: requests.read(world, "ann"))
    world.history.readings[-1] = [
        replace(each, is_short=True) for each in world.history.readings[-1]
    ]


@spoils(climb_checks.readers_who_page_upwards_miss_nothing, "meets the bound of a page")
def a_page_at_its_bound(world: World) -> None:
    world.history.climbs[0].polls[1].page["partial"] = True


@spoils(climb_checks.readers_who_page_upwards_miss_nothing, "has a short page")
def a_short_page_that_says_that_there_is_more(world: World) -> None:
    world.history.climbs[0].polls[1].page["more"] = True


@spoils(climb_checks.readers_who_page_upwards_miss_nothing, "that there is no more, and there is")
def a_reader_who_is_told_too_early_that_there_is_no_more(world: World) -> Any:
    return patch.object(climbs, "finish", lambda _world: None)


@spoils(climb_checks.readers_who_page_upwards_miss_nothing, "times")
def a_reader_upwards_who_is_shown_a_page_twice(world: World) -> None:
    climb = world.history.climbs[0]
    climb.polls.insert(1, climb.polls[1])


@spoils(climb_checks.readers_who_page_upwards_miss_nothing, "and is not shown")
def a_reader_upwards_who_is_shown_nothing(world: World) -> None:
    world.history.climbs[0].polls[1].page["entries"].clear()


# Work and dead letters


@spoils(work.dead_letters_are_noise_or_were_tried_out, "breaks the contract is not a dead letter")
def a_dead_letter_gone(world: World) -> None:
    world.queues.queue(dlq_url(names.PUBLISH)).purge()


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


@spoils(work.book_keeping_is_a_few_units, "write units beside its entries")
def a_ledger_that_is_written_again_and_again(world: World) -> None:
    ledger = Ledger(world.dynamodb, names.FANOUTS.name)  # type: ignore[arg-type]
    row = ledger.get(SENT)
    assert row is not None
    for _ in range(5):
        ledger.touch(row, now=row.accepted_at)  # refused, and paid for


@spoils(work.book_keeping_is_a_few_units, "in 1 segments")
def a_small_post_cut_into_segments(world: World) -> None:
    ledger = Ledger(world.dynamodb, names.FANOUTS.name)  # type: ignore[arg-type]
    row = ledger.get(SMALL)
    assert row is not None
    for _ in range(2):
        ledger.touch(row, now=row.accepted_at)  # refused, and paid for
    fanout(world, SMALL, segments=number(2))


@spoils(work.book_keeping_is_a_few_units, "in 1 segments")
def one_hop_that_costs_as_much_as_two(world: World) -> None:
    assert SMALL in world.observer.at_once
    ledger = Ledger(world.dynamodb, names.FANOUTS.name)  # type: ignore[arg-type]
    row = ledger.get(SMALL)
    assert row is not None
    ledger.touch(row, now=row.accepted_at)  # refused, and paid for


@spoils(work.stragglers_have_nobody_written_again, "stragglers,")
def an_entry_written_twice_beside_a_straggler(world: World) -> None:
    world.faults.hot = frozenset({"ann"})
    entry(world, "bob", POST)


@spoils(work.stragglers_have_nobody_written_again, "though its stragglers could be written")
def a_straggler_left_behind(world: World) -> None:
    world.faults.hot = frozenset({"ann"})
    fanout(world, POST, state=text("delivering"))


# Edits, and posts apart from timelines


def _edit(world: World, content: object = EDITED, **known: Any) -> None:
    """Tell of one more request of the publisher to edit its post."""
    (first, *_) = world.history.edits.of(CHANGED, OTHER)
    world.history.edits.add(Edit(OTHER, CHANGED, content, **{"stamp": first.stamp, **known}))


def _feed(world: World, publisher: str, *posts: dict[str, Any]) -> None:
    """Tell of one more reading of a feed."""
    world.history.feeds.append([Page(publisher, 0, list(posts))])


def _shown(ref_id: str, publisher: str) -> dict[str, Any]:
    ids = {"ref_id": ref_id, "publisher_id": publisher}
    return {**ids, "published_at": AN_HOUR_LATER, "edited_at": None, "body": {}}


@spoils(edits.posts_are_shown_with_their_latest_edit, "without its edit of")
def an_edit_without_its_time(world: World) -> None:
    post(world, CHANGED, edited_at=None)


@spoils(edits.posts_are_shown_with_their_latest_edit, "that nobody sent")
def an_edit_of_another_time(world: World) -> None:
    post(world, CHANGED, edited_at=text(AN_HOUR_LATER))


@spoils(edits.posts_are_shown_with_their_latest_edit, "as of")
def an_edit_that_took_the_place_of_a_later_one(world: World) -> None:
    _edit(world, stamp=2_000_000_000_000, done_ms=0.0)


@spoils(edits.edits_are_refused_with_reason, "eve was answered 200 about")
def an_edit_of_somebody_elses_post(world: World) -> None:
    (edit,) = (each for each in world.history.edits.by_post[CHANGED] if each.user == "eve")
    edit.status = 200


@spoils(edits.edits_are_refused_with_reason, "and was not found to be edited")
def a_post_that_is_not_found_to_be_edited(world: World) -> None:
    _edit(world, status=404, begun=world.scheduler.turns)


@spoils(edits.edits_are_refused_with_reason, "for a later one, and there was none")
def an_edit_refused_for_no_other(world: World) -> None:
    _edit(world, status=409, stamp=2_000_000_000_000)


@spoils(edits.edits_are_refused_with_reason, "as retracted, and nobody had tried to")
def an_edit_of_a_living_post_refused_as_retracted(world: World) -> None:
    _edit(world, status=410)


@spoils(edits.feeds_show_what_was_published, "is out of order")
def a_feed_with_a_post_twice(world: World) -> None:
    _feed(world, OTHER, _shown(CHANGED, OTHER), _shown(CHANGED, OTHER))


@spoils(edits.feeds_show_what_was_published, "has posts of others")
def a_feed_with_a_post_of_somebody_else(world: World) -> None:
    _feed(world, PUBLISHER, _shown(CHANGED, OTHER))


@spoils(edits.feeds_show_what_was_published, "is missing in the feed of")
def a_feed_without_a_post(world: World) -> None:
    _feed(world, OTHER)


@spoils(edits.feeds_show_what_was_published, f"{ENDED} is missing in the feed of")
def a_feed_without_a_stored_post_that_a_person_has_ended_before_it_was_accepted(
    world: World,
) -> None:
    world.history.of("send", subject=ENDED)[0].kind = "publish"
    _feed(world, PUBLISHER, *(_shown(each, PUBLISHER) for each in sorted((POST, SENT))[::-1]))


@spoils(edits.feeds_show_what_was_published, "has retracted posts")
def a_feed_with_a_retracted_post(world: World) -> None:
    _feed(world, PUBLISHER, _shown(RETRACTED, PUBLISHER))


@spoils(edits.posts_are_found_by_themselves, "which was retracted before")
def a_retracted_post_that_is_read(world: World) -> None:
    look = Look("ann", RETRACTED, world.clock.now_ms(), _shown(RETRACTED, PUBLISHER))
    world.history.looks.append(look)


@spoils(edits.posts_are_found_by_themselves, "which was accepted before")
def an_accepted_post_that_is_not_found(world: World) -> None:
    world.history.looks.append(Look("ann", CHANGED, world.clock.now_ms(), None))


@spoils(posts.a_key_stands_for_one_post, "was accepted with two bodies")
def a_key_for_two_posts(world: World) -> None:
    (first,) = world.history.of("publish", subject=CHANGED)
    world.history.add(replace(first, content={"title": "another"}))


# Operators


@spoils(operated.the_doctor_finds_nothing_after_its_repair, "The doctor ends with")
def an_edge_that_the_doctor_misses(world: World) -> None:
    a_missing_edge(world)


@spoils(
    operated.the_doctor_finds_only_what_accidents_did, "missing, without", "unreachable, without"
)
def differences_without_an_accident(world: World) -> None:
    report = world.first_examination
    follow = Follow(user_id="ann", publisher_id=PUBLISHER, state=FOLLOWED, version=1)
    report.add(Snapshot(follow, {}))
    report.add_unreachable(Unreachable(PUBLISHER, level=0, seen=1))


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


# What shows only while it happens


def _update(world: World, **sets: Any) -> None:
    """SWEEP changes the row of a fan-out, without any condition."""

    def act() -> None:
        BotoClient("dynamodb", 1).update_item(
            TableName=names.FANOUTS.name, Key=keyed({"fanout_id": POST}), **expressions(sets=sets)
        )

    acting(world, "sweep", act)


def _order(world: World, actor: str, **fields: Any) -> None:
    """Somebody sends an order to the express lane."""
    order = DeliverSegment(**{"fanout_id": POST, "segment": 0, "segments": 1, **fields})
    entries = [{"Id": "0", "MessageBody": json.dumps(order.message(group="g").content)}]

    def act() -> None:
        url = queue_url(names.EXPRESS)
        BotoClient("sqs", 1).send_message_batch(QueueUrl=url, Entries=entries)
        world.triggers.paused.clear()

    acting(world, actor, act)


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


@spoils(observed, "which have expired")
def entries_of_plan_that_nobody_will_see(world: World) -> None:
    _entries_of_plan(world, "ann", expires_at=world.clock.now_ms() // 1000 - 86_400)


@spoils(observed, "for 20.0 s")
def a_plan_that_writes_for_long(world: World) -> None:
    _entries_of_plan(world, "ann", "bob", seconds=20.0)


@spoils(observed, "than a segment has")
def a_plan_that_writes_to_many(world: World) -> None:
    _entries_of_plan(world, *FOLLOWERS)


@spoils(observed, "SWEEP counts the asks of")
def a_question_counted_twice(world: World) -> None:
    _update(world, asked_at=number(1), asks=number(2))


@spoils(observed, "SWEEP has made 17 asks of")
def a_question_too_many(world: World) -> None:
    fanout(world, POST, asks=number(16))
    _update(world, asked_at=number(1), asks=number(17))


@spoils(observed, "SWEEP asks about")
def a_question_too_soon(world: World) -> None:
    asked = world.clock.now_ms() - 3 * 420_000
    fanout(world, POST, state=text("delivering"), asks=number(3), asked_at=number(asked))
    _update(world, asked_at=number(asked + 1), asks=number(4))


@spoils(observed, "up too early")
def a_fanout_given_up_at_once(world: World) -> None:
    _update(world, state=text("stalled"))


@spoils(observed, "up, and all of it waits")
def a_fanout_given_up_that_waits(world: World) -> None:
    fanout(world, POST, state=text("delivering"), pending={"NS": ["0"]}, asks=number(16))
    order = DeliverSegment(fanout_id=POST, segment=0, segments=1).message(group="g").content
    world.sqs.send_message(
        QueueUrl=queue_url(names.EXPRESS), MessageBody=json.dumps(order), DelaySeconds=60
    )
    _update(world, state=text("stalled"))


@spoils(observed, "before it notes it")
def an_order_that_sweep_has_not_noted(world: World) -> None:
    _order(world, "sweep")


@spoils(observed, "which is paused")
def an_order_of_sweep_to_a_paused_lane(world: World) -> None:
    world.triggers.paused.add(names.EXPRESS.name)
    _order(world, "sweep")


@spoils(observed, "fails, and nothing has failed it")
def a_worker_that_fails_by_itself(world: World) -> None:
    with patch.object(Ledger, "wanted", side_effect=RuntimeError):
        _order(world, "client")


@spoils(observed, "is stalled, and has just made progress")
def progress_that_does_not_reopen_a_stalled_fanout(world: World) -> None:
    fanout(world, POST, state=text("stalled"), pending={"NS": ["0"]})
    world.observer.written.clear()
    segments = int(world.row(names.FANOUTS, keyed({"fanout_id": POST}))["segments"]["N"])
    with patch.object(Ledger, "finish_segment", return_value=None):
        _order(world, "client", segments=segments)


@spoils(observed, "that others planned")
def a_loser_of_the_race_to_plan_who_sends_too(world: World) -> None:
    _order(world, "plan on Publish")


@spoils(observed, "is sent, unknown to the ledger")
def an_order_of_an_unknown_fanout(world: World) -> None:
    _order(world, "client", fanout_id="unknown")


@spoils(observed, "is sent that the ledger does not know")
def a_rest_that_is_not_stored(world: World) -> None:
    fanout(world, POST, state=text("delivering"), pending={"NS": ["0"]})
    _order(world, "client", position="8" * 16)


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


def _grow(world: World, level: int) -> None:
    """A door stores another level of a publisher."""
    table = PublishersTable(BotoClient("dynamodb", 1), names.PUBLISHERS.name)  # type: ignore[arg-type]

    def act() -> None:
        world.scheduler.current.environment = "door"
        seen = table.shards(PUBLISHER)
        now_ms, version = world.clock.now_ms(), seen.version + 1
        changed = replace(seen, level=level, version=version, last_updated=now_ms)
        table.update(PUBLISHER, seen=seen, shards=changed)

    acting(world, "client", act)


@spoils(observed, "grows for a throttle of nothing", "follows of its own")
def a_growth_without_reason(world: World) -> None:
    _grow(world, 1)


@spoils(observed, "ms after its last growth")
def a_growth_too_soon(world: World) -> None:
    _grow(world, 1)
    _grow(world, 2)


@spoils(observed, "falls from level 1 to 0")
def a_level_that_falls(world: World) -> None:
    _grow(world, 1)
    _grow(world, 0)


# What has to be told


def _watched(world: World, minutes: int = 45) -> None:
    """Look at the world every minute."""
    liveness = Liveness(Watch(world))
    for _ in range(minutes):
        world.clock.advance(60.0)
        liveness.watch.minute += 1
        liveness.look()


@spoils(alarms.a_late_post_rings_its_alarm, "(small) is late in minute")
def a_post_that_is_late_in_silence(world: World) -> None:
    fanout(world, POST, state=text("queued"), segments=None)
    _watched(world)


@spoils(alarms.a_late_post_rings_its_alarm, "(small) is late in minute")
def a_small_post_that_the_ledger_calls_large_is_late_in_silence(world: World) -> None:
    fanout(world, SMALL, state=text("delivering"), segments=number(2))
    _watched(world, minutes=20)  # it has been small since before anybody looked


@spoils(alarms.a_late_post_rings_its_alarm, "(large) is late in minute")
def a_large_post_that_is_late_in_silence(world: World) -> None:
    fanout(world, POST, state=text("delivering"), segments=number(2))
    _watched(world)


@spoils(alarms.a_late_post_rings_its_alarm, "(stalled) is late in minute")
def a_post_that_stalls_in_silence(world: World) -> None:
    fanout(world, POST, state=text("stalled"))
    _watched(world)


@spoils(alarms.a_late_post_rings_its_alarm, "(not in the ledger) is late in minute")
def a_post_that_the_ledger_never_takes_in_silence(world: World) -> None:
    gone(world, names.FANOUTS, {"fanout_id": POST})
    _watched(world)


@spoils(alarms.a_late_post_rings_its_alarm, "minutes, and ann lacks it")
def a_post_that_is_late_and_called_complete(world: World) -> None:
    gone(world, names.TIMELINES, entry_of(world, "ann", POST))
    _watched(world)


@spoils(alarms.a_calm_world_rings_no_alarm, "and nothing is wrong")
def an_alarm_in_the_calm(world: World) -> None:
    Watch(world).first_rang["ExpressLate"] = 7


@spoils(lanes.a_small_post_waits_for_no_celebrity, "beside a celebrity")
def a_small_post_that_takes_minutes(world: World) -> None:
    world.story = "celebrity"
    fanout(world, POST, segments=number(1))
    _entries_a_minute_later(world)


@spoils(lanes.a_small_post_waits_for_no_celebrity, f"{SMALL} took")
def a_small_post_in_two_segments_that_takes_minutes(world: World) -> None:
    world.story = "celebrity"
    fanout(world, SMALL, segments=number(2))
    _entries_a_minute_later(world)


def _entries_a_minute_later(world: World) -> None:
    for operation in world.history.of("publish", "send"):
        operation.ended_ms -= 60_000


# The tests

importlib.import_module("tests.simulation.spoiled_readings")  # it registers its spoilings
CHECKS = {check.__name__: check for kind in KINDS if kind.make is World for check in kind.checks}


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed():
        yield


def violations(world: World) -> list[str]:
    """What all checks of all kinds say, but what is right to say of a world without faults."""
    return judge.violations(world, CHECKS.values())


def test_nothing_is_wrong_with_the_world_before_it_is_spoiled() -> None:
    world = settled()
    assert violations(world) == []
    assert {NOISE} == {message.body for _, message in world.dead_letters()}


def test_every_spoiling_is_noticed_and_every_sentence_is_said() -> None:
    said: list[str] = []
    unnoticed: list[str] = []
    for spoiling in SPOILINGS:
        world = settled()
        with spoiling.spoil(world) or nullcontext():
            found = judge.violations(world, [CHECKS[spoiling.check]])
        if not any(spoiling.says in line for line in found):
            unnoticed.append(f"{spoiling.name} (said: {found})")
        said += found
    assert not unnoticed, "\n".join(unnoticed)
    unsaid = [
        f"{place}: {pattern}"
        for place, pattern in sentences()
        if not any(re.search(pattern, line) for line in said)
    ]
    assert not unsaid, "Spoil a world so that each of these is said."


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

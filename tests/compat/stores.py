"""The product's own stores as programs: they compare the expressions that the product uses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from fanfold import clock, names
from fanfold.channels.head import MOST, Head
from fanfold.channels.head_table import KEY
from fanfold.errors import FanfoldError, NoPost, RefIdTaken, TooManyFollows, TooManyMutes
from fanfold.fanout.backlog import Resume
from fanfold.fanout.row import Fanout
from fanfold.follows import ring
from fanfold.follows.relation import FOLLOWED, PUBLIC, UNFOLLOWED, Follow, Privacy
from fanfold.follows.ring_reader import Read, RingRead
from fanfold.follows.sharding import WINDOW_SECONDS, raised
from fanfold.rates import Rate
from fanfold.sweep.open_fanouts import Memory
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold.timeline.mutes import Mutes
from fanfold.timeline.page_reads import Range
from fanfold.timeline.posts import Post
from fanfold.timeline.readers import Counted
from proof.simulation.stage import stores
from tests.stores import ask_again, page_of, written

NOW = "2026-11-20T18:00:00.123Z"
LATER = "2026-11-20T18:00:01.456Z"
EXPIRES = 1_900_000_000
NOW_SECONDS = EXPIRES - 30 * 24 * 60 * 60
ASKED_MS = 1_795_197_700_000
NOW_MS = 1000 * NOW_SECONDS
STORED = Fanout(
    fanout_id="post-1",
    publisher_id="pub",
    sort_key=f"{NOW}#post-1",
    accepted_at=NOW,
    expires_at=EXPIRES,
)
POST = Post(
    ref_id="post-1",
    publisher_id="pub",
    published_at=NOW,
    accepted_at=NOW,
    expires_at=EXPIRES,
    body='{"title": "Grüße"}',
)


def posts_are_added_once_and_retracted(client: Any) -> None:
    posts = stores(client).posts
    posts.add(POST, now=NOW_SECONDS)
    posts.add(replace(POST, published_at=LATER), now=NOW_SECONDS)
    with suppress(RefIdTaken):
        posts.add(replace(POST, publisher_id="thief"), now=NOW_SECONDS)
    posts.one("post-1")
    for publisher in ("thief", "pub", "pub"):
        with suppress(RefIdTaken):
            posts.retract("post-1", publisher, retracted_at=NOW_MS, expires_at=EXPIRES)
    posts.one("post-1")
    posts.retract("never-published", "pub", retracted_at=NOW_MS, expires_at=EXPIRES)
    posts.add(replace(POST, ref_id="never-published"), now=NOW_SECONDS)
    posts.add(POST, now=EXPIRES)
    posts.one("post-1")
    for publisher, seconds in (("thief", EXPIRES - 1), ("thief", EXPIRES), ("pub", EXPIRES)):
        with suppress(RefIdTaken):
            posts.retract("post-1", publisher, retracted_at=1000 * seconds, expires_at=EXPIRES + 1)
    posts.one("nowhere")
    posts.get(["post-1", "never-published", "nowhere"])


def own_posts_are_retracted_while_they_last_and_nothing_else(client: Any) -> None:
    posts = stores(client).posts
    posts.add(POST, now=NOW_SECONDS)
    expiry_ms = EXPIRES * 1000
    attempts = (
        ("post-1", "thief", expiry_ms - 1),
        ("post-1", "pub", expiry_ms),
        ("nowhere", "pub", expiry_ms - 1),
        ("post-1", "pub", expiry_ms - 1),
        ("post-1", "pub", expiry_ms - 1),
    )
    for ref_id, publisher, now_ms in attempts:
        with suppress(NoPost):
            posts.retract_own(ref_id, publisher, now_ms=now_ms)
        posts.get(["post-1", "nowhere"])


def the_latest_edit_of_a_living_post_stays(client: Any) -> None:
    posts = stores(client).posts
    edits = [("pub", 2, "2"), ("pub", 1, "1"), ("pub", 2, "2"), ("thief", 3, "3"), ("pub", 3, "3")]

    def edit(publisher: str, after_ms: int, body: str) -> None:
        with suppress(FanfoldError):
            posts.edit("post-1", publisher, body=body, edited_at=NOW_MS + after_ms)
        posts.one("post-1")

    edit(*edits[0])
    posts.add(replace(POST, first_body_hash="0" * 16), now=NOW_SECONDS)
    for each in edits:
        edit(*each)
    edit("pub", 1000 * EXPIRES - NOW_MS, "late")
    posts.retract_own("post-1", "pub", now_ms=NOW_MS)
    edit("pub", 4, "4")


def an_outbox_is_read_in_pages_both_ways(client: Any) -> None:
    posts, outbox = stores(client).posts, stores(client).outbox
    times = [f"2026-11-20T18:00:0{number}.000Z" for number in range(5)]
    for number, at in enumerate(times):
        new = replace(POST, ref_id=f"post-{number}", published_at=at)
        posts.add(new, now=NOW_SECONDS)
        posts.add(replace(new, ref_id=f"{new.ref_id}-of-other", publisher_id="b"), now=NOW_SECONDS)
    for within in (Range(times[1]), Range(times[1], times[4])):
        entries, before, after = [Entry("", "")], None, None
        while entries:
            entries, _ = outbox.newest("pub", within, before=before, limit=2)
            before = entries[-1].sort_key if entries else before
        entries = [Entry("", "")]
        while entries:
            entries, _ = outbox.oldest("pub", within, after=after, limit=2, is_consistent=True)
            after = entries[-1].sort_key if entries else after
    posts.retract_own("post-2", "pub", now_ms=NOW_MS)
    outbox.newest("pub", Range("2026"), before=f"{times[2]}#post-2", limit=9)


def a_fanout_of_one_segment_is_finished_at_once(client: Any) -> None:
    fanouts = stores(client).ledger
    fanouts.open(STORED)
    fanouts.open(STORED)
    fanouts.open(replace(STORED, sort_key="2026-12-30T00:00:00.000Z#post-1"))
    fanouts.open(STORED)
    list(fanouts.open_ids(page=2))
    fanouts.plan(STORED, segments=1, followers=3, level=0, now=NOW)
    fanouts.plan(STORED, segments=2, followers=3, level=1, now=NOW)
    planned = fanouts.get("post-1")
    assert planned is not None
    fanouts.finish_segment(planned, 0, written=3, now=LATER)
    fanouts.finish_segment(planned, 0, written=3, now=LATER)
    fanouts.complete_if_delivered("post-1", now=LATER)
    list(fanouts.open_ids(page=2))
    fanouts.get("post-1")


def sweep_remembers(client: Any) -> None:
    sweeper = stores(client).open_fanouts
    sweeper.memory()
    for paused in ({}, {"Bulk": ASKED_MS}):
        sweeper.remember(Memory("post-1", paused))
        sweeper.memory()
    sweeper.stand_at("post-2")
    sweeper.memory()


def a_fanout_of_many_segments_resumes_stalls_and_completes(client: Any) -> None:
    fanouts = stores(client).ledger
    sweeper = stores(client).open_fanouts
    fanouts.open(STORED)
    fanouts.plan(STORED, segments=4, followers=9, level=2, now=NOW)
    first = Resume("4" + "0" * 15, 10)
    lagging = Resume("5" + "0" * 15, 18, ("41" + "0" * 14, "42" + "0" * 14))
    caught_up = Resume("5" + "0" * 15, 20)
    for resume in (first, first, lagging, caught_up, lagging, first):
        fanouts.store_resume(STORED, 1, resume, now=LATER)
    fanout = fanouts.get("post-1")
    assert fanout is not None
    fanouts.complete_if_delivered("post-1", now=LATER)
    for _ in range(2):
        sweeper.note_question(fanout, now_ms=ASKED_MS)
    asked = fanouts.get("post-1")
    assert asked is not None
    fanouts.note_answer(fanout)
    fanouts.note_answer(asked)
    fanouts.store_resume(asked, 2, first, now=LATER, answers=True)
    fanouts.touch(asked, now=LATER, answers=True)
    for _ in range(2):
        sweeper.note_round(asked, now_ms=ASKED_MS + 1)
    list(sweeper.key_pages())
    sweeper.give_up(asked, now_ms=ASKED_MS)
    again = fanouts.get("post-1")
    assert again is not None
    sweeper.give_up(again, now_ms=ASKED_MS)
    sweeper.give_up(again, now_ms=ASKED_MS)
    sweeper.stalled()
    fanouts.reopen(again, now=LATER)
    fanouts.reopen(replace(again, segments=0), now=LATER)
    fanouts.reopen(replace(again, fanout_id="nothing"), now=LATER)
    sweeper.rows(["post-1", "nothing"])
    list(fanouts.open_ids(page=2))
    list(fanouts.stalled_ids(page=2))
    fanouts.touch(STORED, now=LATER)
    fanouts.touch(replace(STORED, fanout_id="nothing"), now=LATER)
    for segment in (0, 1, 1, 2, 3):
        fanouts.finish_segment(again, segment, written=10 + segment, now=LATER)
    fanouts.store_resume(STORED, 3, first, now=LATER)
    fanouts.complete_if_delivered("post-1", now=LATER)
    fanouts.complete_if_delivered("post-1", now=LATER)
    list(fanouts.open_ids(page=1))
    fanouts.get("post-1")
    fanouts.get("nowhere")


def a_fanout_without_followers_or_without_a_row(client: Any) -> None:
    fanouts = stores(client).ledger
    fanouts.open(STORED)
    fanouts.complete_at_once("post-1", followers=0, now=NOW)
    fanouts.complete_at_once("post-1", followers=0, now=NOW)
    fanouts.complete_at_once("nowhere", followers=0, now=NOW)
    fanouts.open(replace(STORED, fanout_id="post-2"))
    for ref_id in ("post-2", "post-2", "post-1"):
        fanouts.complete_in_channel(ref_id, followers=9_000_000, revision=1, now=NOW)
    fanouts.finish_segment(replace(STORED, segments=1), 0, written=1, now=NOW)
    fanouts.store_resume(replace(STORED, fanout_id="nowhere"), 0, Resume("0" * 16, 1), now=NOW)


def a_fanout_expires_or_is_abandoned_unless_it_has_ended(client: Any) -> None:
    fanouts = stores(client).ledger
    fanouts.expire(STORED, now=NOW)
    for ref_id, segments in (("queued", 0), ("planned", 2), ("delivered", 2), ("complete", 1)):
        fanout = replace(STORED, fanout_id=ref_id, segments=segments)
        fanouts.open(fanout)
        if segments:
            fanouts.plan(fanout, segments=segments, followers=3, level=0, now=NOW)
        if ref_id in ("delivered", "complete"):
            for segment in range(segments):
                fanouts.finish_segment(fanout, segment, written=3, now=NOW)
        fanouts.expire(replace(fanout, sort_key=f"{LATER}#{ref_id}"), now=LATER)
        fanouts.expire(fanout, now=LATER)
    for ref_id in ("queued", "planned"):
        fanouts.plan(replace(STORED, fanout_id=ref_id), segments=1, followers=3, level=0, now=NOW)
        fanouts.complete_at_once(ref_id, followers=0, now=NOW)
    planned = fanouts.get("planned")
    assert planned is not None
    fanouts.store_resume(planned, 0, Resume("4" + "0" * 15, 10), now=NOW)
    fanouts.finish_segment(planned, 0, written=3, now=NOW)
    stores(client).open_fanouts.note_round(planned, now_ms=ASKED_MS)
    fanouts.touch(planned, now=NOW)
    fanouts.get("planned")
    list(fanouts.open_ids(page=2))
    fanouts.abandon("planned", now=NOW)
    fanouts.open(replace(STORED, fanout_id="given up"))
    for _ in range(2):
        fanouts.abandon("given up", now=LATER)
    fanouts.get("given up")


# An edge says when it was put.
@patch.object(clock, "now_ms", lambda: NOW_MS)
def edges_are_put_and_removed_by_version(client: Any) -> None:
    edges_table = stores(client).edges
    for version in (2, 1, 2, 3):
        edges_table.put("pub", "ana", version=version, level=0)
    edges_table.put("pub", "ana", version=3, level=1)
    edges_table.put_all([("pub", f"user-{number}", 1, number % 3) for number in range(60)])
    edges_table.remove("pub", "ana", version=2, level=0)
    for level in (0, 0, 1, 2):
        edges_table.version("pub", "ana", level=level)
        edges_table.remove("pub", "ana", version=3, level=level)
    after, more = ring.START, True
    while more:
        page = edges_table.page("pub", Read(0, 0, after, ring.END), 7)
        after, more = page.edges[-1] if page.edges else after, page.more
    edges_table.page("pub", Read(0, 0, after[:16], ring.END))
    edges_table.page("pub", Read(0, 0, ring.START, after[:16]))
    edges_table.page("nobody", Read(0, 0, ring.START, ring.END))
    for shard in range(4):
        edges_table.page("pub", Read(2, shard, ring.shard_start(shard, 2), ring.END))
    list(edges_table.edges("pub", RingRead(2, ring.START, ring.END), limit=7))
    # A list goes on behind an edge, which lies at one level, or is gone.
    list(edges_table.edges("pub", RingRead(2, ring.edge("user-7"), ring.END), limit=11))


def publishers_grow_by_version_and_are_counted_by_window(client: Any) -> None:
    publishers = stores(client).publishers
    publishers.shards("pub", consistent=False)
    unseen = publishers.shards("pub")
    once = raised(unseen, level=1, now_ms=1_000)
    twice = raised(once, level=2, now_ms=2_000)
    for seen, shards in ((unseen, once), (unseen, once), (once, twice), (once, twice)):
        publishers.update("pub", seen=seen, shards=shards)
    publishers.shards("pub")
    window = WINDOW_SECONDS * 1000
    for now_ms in (0, 1, window, window - 1, 3 * window, 3 * window + 1, 0):
        publishers.count("pub", 16, now_ms=now_ms)
        publishers.shards("pub")
    seen = publishers.shards("pub")
    publishers.update("pub", seen=seen, shards=raised(seen, level=3, now_ms=3 * window + 2))
    publishers.count("counted first", 1, now_ms=window)
    counted = publishers.shards("counted first")
    publishers.update("counted first", seen=counted, shards=raised(counted, level=3, now_ms=window))
    publishers.shards("counted first")


# Versions of the head go by the clock.
@patch.object(clock, "now_ms", lambda: NOW_MS)
def channels_are_added_demoted_and_removed(client: Any) -> None:
    heads = stores(client).heads
    heads.raise_seq("pub", "2026-11-20T18:00:00.123Z#post")
    heads.demote("pub", until=EXPIRES)
    for publisher in ("pub", "a.b|c@example.com", "pub"):
        heads.add(publisher, heads.get(), followers=1_000_000)
    heads.add("late", Head(), followers=1)
    heads.add("late", heads.get()._replace(version=1), followers=1)
    heads.raise_seq("pub", "2026-11-20T18:00:00.123Z#post")
    heads.raise_seq("a.b|c@example.com", "2026-11-20T18:00:00.123Z#other", seen=heads.get())
    for _ in range(2):
        heads.raise_seq("pub", "2026-11-20T18:00:00.123Z#post")
        heads.demote("pub", until=EXPIRES)
    heads.raise_seq("pub", "2026-11-20T18:00:00.123Z#post")
    demoted = heads.get(is_consistent=False).of("pub")
    assert demoted is not None
    heads.add("pub", heads.get(), followers=1_000_000)
    heads.remove(demoted)
    heads.demote("pub", until=EXPIRES + 1)
    for until in (EXPIRES, EXPIRES + 1, EXPIRES + 1):
        heads.remove(demoted._replace(until=until))
    heads.raise_seq("pub", "2026-11-20T18:00:00.123Z#post")
    answer = client.batch_get_item(RequestItems=heads.wanted())
    heads.among(answer["Responses"][names.PUBLISHERS.name])
    seen = heads.get()
    for wanted_head in (seen, seen, Head(version=7, revision=seen.revision + 1)):
        heads.replace(seen, wanted_head._replace(revision=seen.revision + 1))
    heads.replace(Head(), seen)
    full: Any = {"M": {f"{number:016x}": {"M": {}} for number in range(MOST)}}
    rows = {"version": {"N": "9"}, "revision": {"N": "9"}, "channels": full}
    client.put_item(TableName=names.PUBLISHERS.name, Item={**KEY, **rows})
    heads.add("pub", Head(version=9, revision=9), followers=1)


def a_level_of_all_publishers_is_set_and_taken_back(client: Any) -> None:
    publishers = stores(client).publishers
    publishers.static_level()
    for level in (None, 3, 0, None):
        publishers.set_static_level(level)
        publishers.static_level()


def follows_change_by_version_with_their_count(client: Any) -> None:
    follows = stores(client).follows()
    unseen = Follow(user_id="ana", publisher_id="pub", state=UNFOLLOWED, version=0, followed_at=NOW)
    followed = written(follows, unseen, FOLLOWED, now_ms=NOW_MS, max_follows=2)
    written(follows, unseen, FOLLOWED, now_ms=NOW_MS, max_follows=2)
    assert followed is not None
    others = [replace(unseen, publisher_id=f"pub-{number}") for number in range(2)]
    for wish in (others, others[:1]):
        with suppress(TooManyFollows):
            moves = [(seen, replace(seen, state=FOLLOWED)) for seen in wish]
            follows.write(moves, now_ms=NOW_MS, max_follows=2)
    ended = written(follows, followed, UNFOLLOWED, now_ms=NOW_MS)
    written(follows, followed, UNFOLLOWED, now_ms=NOW_MS)
    assert ended is not None
    for asked_again in (
        ended,
        ended,
        replace(ended, version=7),
        replace(unseen, publisher_id="new", followed_at=""),
    ):
        ask_again(follows, replace(asked_again, asked_at=5), now_ms=NOW_MS)
    follows.get("ana", "pub")
    written(follows, replace(ended, followed_at=LATER), FOLLOWED, now_ms=NOW_MS, max_follows=2)
    follows.get("ana", "pub")
    follows.get("ana", "nobody")
    rows, more = follows.page("ana", after=None, limit=1)
    while more:
        rows, more = follows.page("ana", after=rows[-1].publisher_id if rows else "x", limit=1)


def posts_of_a_publisher_are_counted_once(client: Any) -> None:
    counts = stores(client).post_counts(Rate.a_minute(2))
    for ref_id, after_ms in (
        ("post-1", 0),
        ("post-1", 0),
        ("post-2", 0),
        ("post-2", 0),
        ("post-3", 0),
        ("post-3", 30_000),
        ("post-4", 90_000),
    ):
        counts.count("pub", ref_id, now_ms=NOW_MS + after_ms)


def follows_of_a_user_are_counted_while_there_is_room(client: Any) -> None:
    readers = stores(client).readers
    follows = stores(client).follows()
    rate = Rate.a_day(2)
    wish = Follow(user_id="ana", publisher_id="pub", followed_at=NOW)
    at_rest = Counted(readers.get("ana"), rate, NOW_MS)
    written(follows, wish, FOLLOWED, now_ms=NOW_MS, max_follows=9, counted=at_rest)
    # By then others were counted.
    other = replace(wish, publisher_id="pub-2")
    written(follows, other, FOLLOWED, now_ms=NOW_MS, max_follows=9, counted=at_rest)
    readers.count("ana", at_rest)
    counted = Counted(readers.get("ana"), rate, NOW_MS)
    with suppress(TooManyFollows):
        written(follows, other, FOLLOWED, now_ms=NOW_MS, max_follows=1, counted=counted)
    written(follows, other, FOLLOWED, now_ms=NOW_MS, max_follows=9, counted=counted)
    readers.count("ana", counted)
    for after_ms in (0, rate.interval_ns // 1_000_000, 9 * rate.interval_ns // 1_000_000):
        readers.count("ana", Counted(readers.get("ana"), rate, NOW_MS + after_ms))
    readers.get("ana")


def a_publisher_goes_private_and_public_again(client: Any) -> None:
    privacies = stores(client).privacies
    private = Privacy(is_private=True, version=7, since=NOW_MS, asked_at=NOW_MS)
    public = private._replace(is_private=False, version=8)
    # Each second one has seen what is so no more.
    for seen, new in ((PUBLIC, private), (PUBLIC, public), (private, public), (private, public)):
        privacies.replace("pub", seen, new)
        privacies.read("pub")


def a_marker_only_moves_up(client: Any) -> None:
    readers = stores(client).readers
    readers.get("ana")
    for marker in (f"{NOW}#b", f"{NOW}#b", f"{NOW}#a", f"{LATER}#a", f"{NOW}#z"):
        readers.raise_marker("ana", marker)
    readers.get("ana")


def unfollows_mark_their_publishers_up_to_a_limit(client: Any) -> None:
    readers = stores(client).readers
    follows = stores(client).follows()
    wish = Follow(user_id="ana", publisher_id="pub", followed_at=NOW)
    item: dict[str, Any] = {
        "user_id": {"S": "ana"},
        f"hidden_{marks.week_of(NOW_MS) - 9}": {"BS": [b"expired.", b"expired?"]},
        f"hidden_{marks.week_of(NOW_MS) - 1}": {"BS": [b"a week a", marks.hash_of("pub")]},
    }
    client.put_item(TableName=names.READERS.name, Item=item)
    client.put_item(
        TableName=names.FOLLOWING.name,
        Item={
            "user_id": {"S": "ana"},
            "publisher_id": {"S": "pub"},
            "version": {"N": "1"},
            "state": {"S": UNFOLLOWED},
        },
    )
    followed = written(follows, replace(wish, version=1), FOLLOWED, now_ms=NOW_MS, max_follows=2)
    assert followed is not None
    readers.get("ana")
    ended = written(follows, followed, UNFOLLOWED, now_ms=NOW_MS)
    assert ended is not None
    readers.get("ana")
    for seen in (ended, followed):
        follows.mark(seen, now_ms=NOW_MS)
    ended = ask_again(follows, ended, now_ms=NOW_MS)
    assert ended is not None
    followed = written(follows, ended, FOLLOWED, now_ms=NOW_MS, max_follows=2)
    assert followed is not None
    full = {"BS": [bytes([0, 0, 0, 0, 0, 0, n // 256, n % 256]) for n in range(marks.MAX_HIDDEN)]}
    item = {"user_id": {"S": "ana"}, f"hidden_{marks.week_of(NOW_MS)}": full}
    client.put_item(TableName=names.READERS.name, Item=item)
    written(follows, followed, UNFOLLOWED, now_ms=NOW_MS)
    follows.active_among("ana", ["pub", "nobody"])


def mutes_change_the_names_and_the_marks(client: Any) -> None:
    mutes = Mutes(stores(client).readers)
    for change in (mutes.unmute, mutes.mute, mutes.mute, mutes.unmute, mutes.mute):
        change("ana", "pub", asked_at=NOW_MS)
    mutes.list("ana", limit=5, after=None)
    full = {"user_id": {"S": "ana#muted"}, "publishers": {"SS": [f"p{n:03}" for n in range(500)]}}
    client.put_item(TableName=names.READERS.name, Item=full)
    for publisher in ("p007", "pub"):
        with suppress(TooManyMutes):
            mutes.mute("ana", publisher, asked_at=NOW_MS)


def timelines_take_entries_and_answer_pages(client: Any) -> None:
    timelines = stores(client).entries
    for number in range(5):
        entry = Entry(f"2026-11-20T18:00:0{number}.000Z#post-{number}", "pub", EXPIRES)
        timelines.push(entry, ["ana", "bob"])
        timelines.push(entry, ["ana"])
    of_ana = partial(page_of, timelines, "ana")
    since, until = "2026-11-20T18:00:00.999Z", "2026-11-20T18:00:04.000Z"
    for within in (Range(since), Range(since, until)):
        entries, before, after = [Entry("", "")], None, None
        while entries:
            entries, _ = of_ana(within, start=before, limit=2)
            before = entries[-1].sort_key if entries else before
        entries = [Entry("", "")]
        while entries:
            order = {"ScanIndexForward": True, "ConsistentRead": after is None}
            entries, _ = of_ana(within, start=after, limit=2, **order)
            after = entries[-1].sort_key if entries else after
    # Cursors outlive the entries that they were made of.
    of_ana(Range(since), start=f"{until}#gone", limit=2)
    order = {"ScanIndexForward": True, "ConsistentRead": False}
    of_ana(Range(since), start=f"{since}#gone", limit=9, **order)
    page_of(timelines, "carol", Range("2026"), start=None, limit=2)
    # What is unread begins behind an entry.
    of_ana(Range("2026-11-20T18:00:02.000Z#post-2"), start=None, limit=101)
    # A backfill puts what is missing.
    brought = [Entry(f"2026-11-20T18:00:0{n}.000Z#post-{n}", "pub", EXPIRES) for n in (4, 5)]
    for _ in range(2):
        timelines.held("ana", [entry.sort_key for entry in brought])
        timelines.put("ana", brought)


SCRIPTS: list[Callable[[Any], None]] = [
    posts_are_added_once_and_retracted,
    own_posts_are_retracted_while_they_last_and_nothing_else,
    the_latest_edit_of_a_living_post_stays,
    an_outbox_is_read_in_pages_both_ways,
    a_fanout_of_one_segment_is_finished_at_once,
    sweep_remembers,
    a_fanout_of_many_segments_resumes_stalls_and_completes,
    a_fanout_without_followers_or_without_a_row,
    a_fanout_expires_or_is_abandoned_unless_it_has_ended,
    edges_are_put_and_removed_by_version,
    publishers_grow_by_version_and_are_counted_by_window,
    channels_are_added_demoted_and_removed,
    a_level_of_all_publishers_is_set_and_taken_back,
    follows_change_by_version_with_their_count,
    posts_of_a_publisher_are_counted_once,
    follows_of_a_user_are_counted_while_there_is_room,
    unfollows_mark_their_publishers_up_to_a_limit,
    mutes_change_the_names_and_the_marks,
    a_publisher_goes_private_and_public_again,
    a_marker_only_moves_up,
    timelines_take_entries_and_answer_pages,
]

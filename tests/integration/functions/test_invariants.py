"""What can never be is reported by name where it is met, and the call is answered all the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from fanfold import invariants, names, times
from fanfold.aws.items import binaries, expressions, number, text
from fanfold.channels.head import key_of, partition_of
from fanfold.fanout import deliver
from fanfold.fanout.backlog import Resume
from fanfold.fanout.worker_steps import HandBack
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage, RingRead
from fanfold.ids import sort_key
from fanfold.timeline import marks, readers, visibility
from fanfold.timeline.entries import Entry, found
from tests.service import AT, AT_MS, POST, System, through_lanes

ROOT = Path(__file__).parents[3]
DAY_MS = 24 * 60 * 60 * 1000
AHEAD = times.to_text(AT_MS + 2 * DAY_MS)
EARLIER = times.to_text(AT_MS - 1000)

Patch: TypeAlias = pytest.MonkeyPatch
Ask: TypeAlias = Callable[[System], None]
Case: TypeAlias = Callable[[System, Patch], None]
CASES: dict[str, Case] = {}


def breaks(name: str) -> Callable[[Case], Case]:
    """Register what breaks an invariant, and then asks for something."""

    def register(case: Case) -> Case:
        CASES[name] = case
        return case

    return register


def breaks_by(**spoilings: Ask) -> Callable[[Ask], Ask]:
    """Register spoilings of rows by the invariant, and what asks then."""

    def register(ask: Ask) -> Ask:
        for name, spoil in spoilings.items():
            CASES[name] = partial(_spoil_and_ask, spoil, ask)
        return ask

    return register


def _spoil_and_ask(spoil: Ask, ask: Ask, system: System, _patch: Patch) -> None:
    spoil(system)
    ask(system)


@pytest.fixture
def channel_threshold() -> int:
    return 1_000_000


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the invariants that are reported."""
    told: set[str] = set()
    monkeypatch.setattr(invariants, "broken", lambda name, **_ids: told.add(name))
    return told


def changed(table: names.Table, *key: str, **sets: Any) -> Ask:
    """Change attributes of a row; of a path, `__` stands for the dot."""
    attributes = filter(None, (table.partition_key, table.sort_key))

    def change(system: System) -> None:
        system.dynamodb.update_item(
            TableName=table.name,
            Key=dict(zip(attributes, map(text, key), strict=True)),
            **expressions(sets={name.replace("__", "."): sets[name] for name in sets}),
        )

    return change


def put(system: System, table: names.Table, **item: Any) -> None:
    system.dynamodb.put_item(TableName=table.name, Item=item)


# Deliveries


def plan(system: System) -> None:
    """A post to two followers, whose only segment waits."""
    system.give_followers(2)
    system.publish()
    with through_lanes():
        system.pump("Publish")


def of_fanout(**sets: Any) -> Ask:
    def spoil(system: System) -> None:
        plan(system)
        changed(names.FANOUTS, POST, **sets)(system)

    return spoil


def resumed(position: str, *stragglers: str, segment: int = 0) -> dict[str, Any]:
    return {"M": {str(segment): text(Resume(position, 1, stragglers).to_text())}}


@breaks_by(
    fanout_state=of_fanout(state=text("odd")),
    fanout_key=of_fanout(sort_key=text(f"{AT}#another")),
    fanout_times=of_fanout(asked_at=number(AT_MS + 2 * DAY_MS)),
    queued_unplanned=of_fanout(state=text("queued")),
    delivering_planned=of_fanout(segments=number(0)),
    complete_pending=of_fanout(state=text("complete")),
    complete_since=of_fanout(state=text("complete")),
    pending_in_plan=of_fanout(pending={"NS": ["0", "7"]}),
    resume_pending=of_fanout(resume=resumed(ring.START, segment=3)),
    plan_level=of_fanout(level=number(-1)),
)
def deliver_the_segment(system: System) -> None:
    done, failed = system.work("Express")
    assert (len(done), failed) == (1, [])


@breaks_by(
    resume_in_segment=of_fanout(resume=resumed("h" * ring.POSITION_DIGITS)),
    stragglers_behind=of_fanout(resume=resumed(ring.START, "f" * ring.POSITION_DIGITS)),
)
def deliver_to_everybody(system: System) -> None:
    system.pump("Express")
    assert len(system.reached()) == 2
    assert not system.rejected("Express")


@breaks("hand_back_forward")
def hand_back_before_the_beginning(system: System, patch: Patch) -> None:
    plan(system)
    patch.setattr(deliver, "run", lambda *_: HandBack("", 0, progress=True))
    deliver_the_segment(system)


@breaks("edges_in_range")
def answer_an_edge_beyond_the_range(_system: System, _patch: Patch) -> None:
    wanted = RingRead(0, ring.START, "8")
    read = wanted.next_read()
    assert read
    wanted.page_read(read, EdgePage(["1" * 16 + "#ann", "9" * 16 + "#bob"], more=False))
    assert wanted.take() == ["1" * 16 + "#ann"]


@breaks("edge_position")
def move_an_edge(system: System, _patch: Patch) -> None:
    shard = text(ring.shard_key("ada", 0, 0))
    put(system, names.FOLLOWERS, shard_id=shard, edge=text("0" * 16 + "#bob"), version=number(1))
    publish_to_one(system)
    assert system.reached() == ["bob"]


def publish_to_one(system: System) -> None:
    system.publish()
    system.pump("Publish", "Express")
    assert len(system.reached()) == 1


def of_publisher(**sets: Any) -> Ask:
    def spoil(system: System) -> None:
        system.give_followers(1)
        changed(names.PUBLISHERS, "ada", **sets)(system)

    return spoil


breaks_by(
    publisher_level=of_publisher(level=number(-1)),
    level_history=of_publisher(shard_history={"L": [{"L": [number(3), number(1), number(1)]}]}),
)(publish_to_one)

# Pages


def show(system: System) -> None:
    """A page of one who follows, which shows the post unless that is what was spoiled."""
    answer = system.timeline("bob")
    assert answer.status == 200
    assert answer.body["next"] is None


def shown(system: System) -> None:
    """A page that shows the post."""
    assert [each["ref_id"] for each in system.timeline("bob").body["entries"]] == [POST]


def of_reader(spoil: Ask) -> Ask:
    def begin(system: System) -> None:
        system.follow("bob")
        system.publish()
        system.pump("Publish", "Express")
        spoil(system)

    return begin


def reader(**sets: Any) -> Ask:
    return of_reader(changed(names.READERS, "bob", **sets))


week = marks.week_of(AT_MS)
years = number((AT_MS + 5_000 * DAY_MS) // 1000)
breaks_by(
    reader_marks=reader(muted=binaries([b"short"])),
    reader_mutes=reader(muted=binaries([marks.hash_of(str(each)) for each in range(501)])),
    reader_weeks=reader(**{f"hidden_{week + 2}": binaries([marks.hash_of("eve")])}),
    reader_marker=reader(marker=text(sort_key(AHEAD, "x"))),
    reader_rate=reader(follows_until_ns=number((AT_MS + 3 * DAY_MS) * 1_000_000)),
    reader_verified=reader(verify_until=years),
)(shown)
breaks_by(
    post_key=of_reader(changed(names.POSTS, POST, sort_key=text(f"{AT}#another"))),
    post_tombstone=of_reader(changed(names.POSTS, POST, deleted_at=text(AT), body=text("{}"))),
    entry_key=of_reader(changed(names.TIMELINES, "bob", f"{EARLIER}#", publisher_id=text("ada"))),
)(show)


def answered(spoil: Callable[[Entry], list[Entry]], *, has_more: bool = False) -> Case:
    """Have the Query of a timeline with one entry answer otherwise."""

    def spoiled(entries: list[Entry]) -> list[Entry]:
        return spoil(entries[0]) if entries else []

    def case(system: System, patch: Patch) -> None:
        of_reader(lambda _system: None)(system)
        patch.setattr(visibility, "found", lambda each: (spoiled(found(each)[0]), has_more))
        page = system.timeline("bob", hydrate="false").body
        assert system.timeline("bob", hydrate="false", after=page["previous"]).status == 200

    return case


def at(entry: Entry, *times: str) -> list[Entry]:
    return [entry._replace(sort_key=sort_key(each, POST)) for each in times]


CASES |= {
    "entries_in_order": answered(lambda entry: [entry, entry]),
    "entries_in_range": answered(lambda entry: at(entry, "2001-01-01T00:00:00.000Z")),
    "page_in_order": answered(lambda entry: at(entry, EARLIER, AT)),
    "page_cursors": answered(lambda entry: at(entry, EARLIER, AT), has_more=True),
}


@breaks("marker_kept")
def answer_a_lower_marker(_system: System, patch: Patch) -> None:
    patch.setattr(readers, "update_or_read", lambda *_: {"marker": text("2001")})
    assert readers.Readers(None, "").raise_marker("bob", AT) == "2001"  # type: ignore[arg-type]


# Follows


def following(**sets: Any) -> Ask:
    def spoil(system: System) -> None:
        system.follow("bob")
        changed(names.FOLLOWING, "bob", "ada", **sets)(system)

    return spoil


@breaks_by(
    follow_state=following(state=text("odd")),
    follow_version=following(version=number(0)),
    follow_ended=following(ended_at=number(AT_MS)),
    follow_blocked=following(shut=number(1)),
    follow_requested=following(state=text("requested")),
    follow_expires=following(expires_at=number(2_000_000_000)),
)
def list_follows(system: System) -> None:
    assert system.http("api/list_following", user="bob").status == 200


# Channels


def channel(spoil: Ask) -> Ask:
    """A post in a channel, and a reader who follows it; the next page reads all anew."""

    def begin(system: System) -> None:
        system.follow("bob")
        system.promote("ada")
        system.publish()
        system.pump("Publish", "Express")
        assert system.reached() == [partition_of("ada")]
        spoil(system)
        system.forget()

    return begin


def head(**sets: Any) -> Ask:
    """Change what the head says of the channel."""
    paths = {f"channels__{key_of('ada')}__{name}": sets[name] for name in sets}
    return changed(names.PUBLISHERS, "#channels", **paths)


def misplace(system: System) -> None:
    """Put the channel into another's place in the head."""
    row = system.dynamodb.get_item(
        TableName=names.PUBLISHERS.name, Key={"publisher_id": text("#channels")}
    )["Item"]
    other = {key_of("eve"): next(iter(row["channels"]["M"].values()))}
    put(system, names.PUBLISHERS, **{**row, "channels": {"M": other}})


of_another = changed(names.TIMELINES, "#ada", f"{AT}#{POST}", publisher_id=text("eve"))
breaks_by(
    channels_seen=channel(changed(names.READERS, "bob", channels_seen=number(AT_MS * 2))),
    channel_version=channel(head(v=number(AT_MS * 2))),
    channel_last=channel(head(last_seq=number(9))),
    channel_until=channel(head(until=number(AT_MS // 1000))),
    channel_entry=channel(of_another),
    channel_key=channel(misplace),
)(shown)


# The tests


@pytest.mark.parametrize("name", CASES)
def test_a_broken_invariant_is_reported_by_name_and_the_call_is_answered(
    name: str, system: System, broken: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    CASES[name](system, monkeypatch)
    assert name in broken


def test_the_log_names_an_invariant_and_the_metric_counts_it_once_a_minute(
    system: System, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    of_fanout(level=number(-1))(system)
    reader(muted=binaries([b"short"]))(system)
    for _ in range(2):
        shown(system)
        system.clock.advance(29)
    told = [vars(each) for each in caplog.records if each.levelname == "ERROR"]
    assert [each["invariant"] for each in told] == ["plan_level", "reader_marks"]
    assert told[0]["fanout_id"] == POST
    assert "bob" not in str(told[1])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sum(sum(line.get(names.INVARIANT_BROKEN, ())) for line in lines) == 2


def test_every_invariant_is_broken_here_checked_somewhere_and_named_in_the_docs() -> None:
    source = "".join(path.read_text() for path in (ROOT / "fanfold").rglob("*.py"))
    checked = re.findall(r'(?:check|expect)\(\s*"(\w+)"', source)
    assert sorted(checked) == sorted(invariants.INVARIANTS)
    assert CASES.keys() == invariants.INVARIANTS.keys()
    section = (ROOT / "docs/reliability.md").read_text().partition("\n## What can never be\n")[2]
    table = section.partition("\n## ")[0]
    told = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE))
    assert told == dict(invariants.INVARIANTS)

"""`fanfold doctor` in a stage with channels: posts, heads and what readers' rows say of them."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import names
from fanfold.aws.items import binaries, expressions, number, text
from fanfold.channels.head import Channel, Head, partition_of
from fanfold.channels.head_table import KEY
from fanfold.doctor import rebuilt_head
from fanfold.doctor.findings import Difference, mark_of
from fanfold.doctor.rebuilt_head import Known
from fanfold.fanout.row import CHANNEL, Fanout
from fanfold.follows.relation import FOLLOWED, Follow
from fanfold.ids import ref_id_for
from fanfold.timeline.marks import Reader, hash_of
from tests.commands import FakeLambda, Ran, run
from tests.integration.cli.test_cli_permissions import Policed, documented
from tests.integration.doctor.test_doctor import found
from tests.service import AT_MS, System

pytestmark = pytest.mark.usefixtures("folder")

# No publisher of these tests has so many followers: a channel is given by hand.
BY_HAND = 1_000_000
UNTIL = 2_000_000_000


@pytest.fixture
def channel_threshold() -> int:
    return BY_HAND


def doctor(*options: str, retention_days: int = 30) -> Ran:
    lambda_ = FakeLambda(channel_threshold=BY_HAND, retention_days=retention_days)
    expect = ("--expect", "9") if "--repair" in options else ()
    return run("doctor", "--whole", *options, *expect, "--json", lambda_=lambda_)


def is_well(system: System) -> bool:
    """Whether a repair leaves nothing to find."""
    repaired = doctor("--repair")
    return repaired.exit_code == 0 and repaired.json["left"] == 0 and found(doctor()) == {}


def post(system: System, *titles: str, user: str = "ada") -> None:
    """Publish posts, a second apart, and have PLAN take them."""
    for title in titles:
        system.clock.advance(1)
        assert system.publish(title, user=user, body={"title": title}).status == 202
    system.pump("Publish")


def seen(system: System, user: str = "bob") -> list[str]:
    """The titles that pages show in cold containers, newest first."""
    system.door("timeline").channels.forget()
    entries = system.timeline(user, limit="100").body["entries"]
    return [entry["body"]["title"] for entry in entries]


def change(system: System, user: str = "bob", **clauses: Any) -> None:
    """Change a reader's row by hand."""
    key = {"user_id": text(user)}
    system.dynamodb.update_item(TableName=names.READERS.name, Key=key, **expressions(**clauses))


def reader(system: System, user: str = "bob") -> Any:
    return next(row for row in system.rows(names.READERS) if row["user_id"] == text(user))


def head_row(system: System) -> Any:
    return system.dynamodb.get_item(TableName=names.PUBLISHERS.name, Key=KEY)["Item"]


def lose_head(system: System) -> None:
    system.dynamodb.delete_item(TableName=names.PUBLISHERS.name, Key=KEY)


def lose_entries(system: System) -> None:
    """Ada's channel loses its posts."""
    for row in system.rows(names.TIMELINES):
        if row["user_id"]["S"] == partition_of("ada"):
            key = {name: row[name] for name in ("user_id", "sort_key")}
            system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)


@pytest.fixture
def sound(system: System) -> System:
    """Bob follows Ada, who has a channel with two posts, and Bea, who has none."""
    system.promote("ada")
    for publisher in ("ada", "bea"):
        system.follow("bob", publisher)
    post(system, "one", "two")
    post(system, "three", user="bea")
    system.pump("Relation")
    assert {system.ledger(ref_id_for("ada", each)).by for each in ("one", "two")} == {CHANNEL}
    assert seen(system) == ["three", "two", "one"]
    return system


def test_a_sound_stage_has_no_difference(sound: System) -> None:
    ran = doctor()
    assert (ran.exit_code, found(ran)) == (0, {})
    assert (ran.json["posts_in_channels"], ran.json["follows"]) == (2, 2)
    plain = run("doctor", "--whole", lambda_=FakeLambda(channel_threshold=BY_HAND))
    assert "2 follows, 2 edges and 2 posts in channels were examined" in plain.stdout


# Posts


def test_posts_that_their_channel_has_lost_are_put_there_again(sound: System) -> None:
    before = sound.heads.get().channels
    lose_entries(sound)
    ran = doctor()
    assert (ran.exit_code, found(ran)) == (1, {"post_missing": 2})
    refs = {ref_id_for("ada", each) for each in ("one", "two")}
    assert {each["ref_id"] for each in ran.json["post_missing"]} == refs
    assert seen(sound) == ["three"]
    assert is_well(sound)
    assert seen(sound) == ["three", "two", "one"]
    (ada,) = sound.heads.get().channels.values()
    assert ada.seq == before[ada.key].seq + 2


def test_the_permissions_that_are_documented_suffice(sound: System) -> None:
    lambda_ = FakeLambda(channel_threshold=BY_HAND)
    lose_entries(sound)
    lose_head(sound)
    for like, exit_code in (("doctor", 1), ("doctor --repair", 0)):
        client = Policed(documented(like))
        ran = run(*like.split(), "--whole", lambda_=lambda_, dynamodb=client)
        assert (ran.exit_code, client.denied) == (exit_code, set())
    assert seen(sound) == ["three", "two", "one"]


def test_retracted_and_expired_posts_are_not_missed(sound: System) -> None:
    sound.http("api/retract_post", user="ada", path={"ref_id": ref_id_for("ada", "one")})
    lose_entries(sound)
    assert found(doctor()) == {"post_missing": 1}
    sound.clock.advance(2 * 86_400)
    assert found(doctor(retention_days=1)) == {}, "no page of a shorter retention shows it"
    sound.clock.advance(28 * 86_400)
    assert found(doctor()) == {}


# What readers' rows say


def test_a_row_that_leaves_a_channel_out_is_repaired(sound: System) -> None:
    version = number(sound.heads.get().version)
    change(sound, sets={"channels_seen": version}, removes=["channels"])
    assert seen(sound) == ["three"]
    ran = doctor()
    assert found(ran) == {"channel_missing": 1}
    (example,) = ran.json["examples"]
    assert (example["what"], example["publisher_id"]) == ("channel_missing", "ada")
    assert is_well(sound)
    assert seen(sound) == ["three", "two", "one"]


@pytest.mark.parametrize("has_row", [True, False])
def test_a_row_that_has_a_channel_without_a_follow_is_repaired(
    sound: System, has_row: bool
) -> None:
    if has_row:
        sound.unfollow("carl", "ada")
    change(sound, "carl", adds={"channels": binaries([hash_of("ada"), hash_of("bea")])})
    assert found(doctor()) == {"channel_extra": 1}
    assert is_well(sound)
    assert seen(sound, "carl") == []
    is_marked = any(name.startswith("hidden_") for name in reader(sound, "carl"))
    assert not is_marked, "carl has never followed ada"


def test_readers_restored_to_an_earlier_time_are_repaired(sound: System) -> None:
    """Between then and now, Bob followed Cem and unfollowed Ada."""
    sound.promote("cem")
    old = reader(sound)
    sound.follow("bob", "cem")
    sound.unfollow("bob", "ada")
    version = number(sound.heads.get().version)
    sound.dynamodb.put_item(TableName=names.READERS.name, Item={**old, "channels_seen": version})
    assert found(doctor()) == {"channel_missing": 1, "channel_extra": 1}
    assert is_well(sound)
    post(sound, "four", user="cem")
    assert seen(sound) == ["four", "three"]


# The head


def test_a_lost_head_is_rebuilt_from_what_its_channels_hold(sound: System) -> None:
    seen(sound)
    lose_head(sound)
    known_version = sound.clock.ms + 7
    change(sound, sets={"channels_seen": number(known_version)})
    assert sound.follow("bob", "dan").status == 200, "meanwhile, follows are taken"
    assert found(doctor()) == {"not_in_head": 1, "head_outdated": 1}
    assert doctor().json["not_in_head"] == ["ada"]
    assert is_well(sound)
    (ada,) = sound.heads.get().channels.values()
    assert (ada.publisher_id, ada.seq, ada.is_active) == ("ada", 2, True)
    assert ada.version > known_version
    assert seen(sound) == ["three", "two", "one"]
    post(sound, "four")
    assert sound.ledger(ref_id_for("ada", "four")).by == CHANNEL
    assert seen(sound) == ["four", "three", "two", "one"]


def test_a_head_restored_to_an_earlier_time_is_taken_by_warm_containers(sound: System) -> None:
    old = head_row(sound)
    sound.promote("cem")
    sound.heads.demote("ada", until=UNTIL)
    sound.follow("bob", "cem")
    post(sound, "four", user="cem")
    assert seen(sound)[0] == "four"
    sound.dynamodb.put_item(TableName=names.PUBLISHERS.name, Item=old)
    ran = doctor("--repair")
    assert found(ran) == {"not_in_head": 1, "head_outdated": 1}
    assert found(doctor()) == {}
    sound.clock.advance(2)
    titles = [each["body"]["title"] for each in sound.timeline("bob").body["entries"]]
    assert titles == ["four", "three", "two", "one"]
    post(sound, "five", user="cem")
    sound.clock.advance(2)
    assert sound.timeline("bob").body["entries"][0]["body"]["title"] == "five"


def test_warm_containers_accept_a_head_that_lost_only_a_post(sound: System) -> None:
    """It has told of more posts than are still in the ledger, so their number shows nothing."""
    for _ in range(50):
        sound.heads.raise_seq("ada", "2026-11-20T18:00:00.123Z#post")
    old = head_row(sound)
    post(sound, "four")
    assert seen(sound)[0] == "four"
    sound.dynamodb.put_item(TableName=names.PUBLISHERS.name, Item=old)
    assert found(doctor("--repair")) == {"head_outdated": 1}
    assert found(doctor()) == {}
    post(sound, "five")
    sound.clock.advance(2)
    assert sound.timeline("bob").body["entries"][0]["body"]["title"] == "five"


def test_a_repair_of_the_head_that_meets_a_change_is_to_be_run_again(
    sound: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    lose_head(sound)
    plain = rebuilt_head.rebuilt

    def rebuilt(head: Head, known: Known, *, now_ms: int) -> Head:
        sound.promote("cem")
        return plain(head, known, now_ms=now_ms)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(rebuilt_head, "rebuilt", rebuilt)
        ran = doctor("--repair")
    assert (ran.exit_code, ran.json["repaired"]) == (1, 0)
    assert found(ran) == {"not_in_head": 1, "head_outdated": 1}
    assert is_well(sound)
    assert {each.publisher_id for each in sound.heads.get().channels.values()} == {"ada", "cem"}


def test_a_channel_that_was_removed_after_its_posts_have_expired_is_not_missed(
    sound: System,
) -> None:
    head = sound.heads.demote("ada", until=1)
    assert head
    (ada,) = head.channels.values()
    sound.clock.advance(31 * 86_400)
    assert sound.heads.remove(ada)
    assert found(doctor()) == {}


def test_a_stage_that_gives_no_channels_any_more_is_examined_for_those_that_it_has(
    sound: System,
) -> None:
    sound.dynamodb.delete_item(TableName=names.READERS.name, Key={"user_id": text("bob")})
    ran = run("doctor", "--whole", "--json", lambda_=FakeLambda(channel_threshold=0))
    assert found(ran) == {"channel_missing": 1, "places": 1}
    assert ran.json["posts_in_channels"] == 2


# The comparisons


def known(version: int = 0, **posts: int) -> Known:
    all_known = Known(version=version)
    for publisher, count in posts.items():
        row: Any = {"accepted_at": "", "expires_at": 0, "followers": 9, "sort_key": ""}
        all_known.add(Fanout(fanout_id=str(n), publisher_id=publisher, **row) for n in range(count))
    return all_known


def head(*channels: Channel, version: int = 3, revision: int = 5) -> Head:
    return Head(version, revision, {each.key: each for each in channels})


ADA = Channel("ada", 2, seq=4)


def test_a_head_that_knows_less_than_the_ledger_is_outdated_and_a_rebuilt_one_is_later() -> None:
    assert rebuilt_head.is_outdated(head(ADA), known(ada=ADA.seq + 1))
    assert not rebuilt_head.is_outdated(
        head(ADA), known(version=head().version, ada=ADA.seq, bea=1)
    )
    demoted = Channel("cem", 1, seq=9, until=UNTIL)
    found = known(version=7, ada=6, bea=2)
    assert rebuilt_head.not_in_head(head(ADA, demoted), found) == ["bea"]
    whole = rebuilt_head.rebuilt(head(ADA, demoted), found, now_ms=AT_MS)
    assert (whole.version, whole.revision) == (AT_MS, AT_MS)
    assert sorted(whole.channels.values()) == [
        Channel("ada", AT_MS, seq=6),
        Channel("bea", AT_MS, seq=2, followers=9),
        Channel("cem", AT_MS, seq=9, until=UNTIL),
    ]
    assert not rebuilt_head.not_in_head(whole, found)
    assert not rebuilt_head.is_outdated(whole, found)
    assert rebuilt_head.rebuilt(whole, found, now_ms=AT_MS).revision == AT_MS + 1


@pytest.mark.parametrize(
    ("state", "channels_seen", "is_noted", "expected"),
    [
        (FOLLOWED, 2, True, None),
        (FOLLOWED, 2, False, Difference.CHANNEL_MISSING),
        (FOLLOWED, 1, False, None),
        ("unfollowed", 2, True, Difference.CHANNEL_EXTRA),
        ("unfollowed", 2, False, None),
    ],
)
def test_a_reader_has_noted_the_channels_of_the_publishers_followed(
    state: str, channels_seen: int, is_noted: bool, expected: Difference | None
) -> None:
    row = Follow(user_id="bob", publisher_id="ada", state=state, version=1)
    marks = [hash_of("ada")] if is_noted else []
    reader = Reader(channels=marks, channels_seen=channels_seen)
    assert mark_of(row, reader, now_ms=AT_MS, retention_days=30, head=head(ADA)) is expected
    assert mark_of(row, reader, now_ms=AT_MS, retention_days=30, head=head()) is None

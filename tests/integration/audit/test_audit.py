"""`fanfold audit` on a whole stage: sound ones have no finding, and what is lost is found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from fanfold import clock, names, times
from fanfold.audit.audit import Audit
from fanfold.audit.meter import Meter, Metered
from fanfold.audit.reads import Reads
from fanfold.audit.rule import Finding
from fanfold.aws.items import expressions, number, text
from fanfold.follows import ring
from fanfold.follows.follows_table import row_key
from fanfold.stores import Stores
from tests.commands import FakeLambda, Patched, Ran, run, throttled
from tests.compat import engines
from tests.integration.follows.test_private import choose, follow
from tests.service import POST, System

USERS = [f"reader-{number}" for number in range(40)]
# Old enough that a post's acceptance is a margin later, and any eventual read is over.
LATER_SECONDS = 120


@pytest.fixture
def sound(system: System) -> System:
    """40 readers, who have had ada's post for two minutes."""
    for user in USERS:
        assert system.follow(user).status == 200
    system.pump("Relation")
    system.clock.advance(LATER_SECONDS)
    system.publish()
    system.pump()
    system.clock.advance(LATER_SECONDS)
    assert len(system.reached()) == len(USERS)
    return system


def audit(*options: str, **clients: Any) -> Ran:
    return run("audit", *options, lambda_=FakeLambda(), **clients)


def take(system: System, *users: str, sort_key: str = "") -> None:
    """Delete the entries of these users by hand."""
    for user in users:
        key = {"user_id": text(user), "sort_key": text(sort_key or system.ledger().sort_key)}
        system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)


def change_row(system: System, name: str, value: dict[str, str]) -> None:
    """Change the post's row of the ledger by hand."""
    system.dynamodb.update_item(
        TableName=names.FANOUTS.name,
        Key={"fanout_id": text(POST)},
        UpdateExpression="SET #name = :value",
        ExpressionAttributeNames={"#name": name},
        ExpressionAttributeValues={":value": value},
    )


def found(ran: Ran) -> dict[str, int]:
    return {kind: count for kind, count in ran.json["findings"].items() if count}


@pytest.mark.parametrize(
    "scope",
    [
        ("--sample", "200"),
        ("--sample", "200", "--hours", "inf"),
        ("--largest", "3"),
        ("--post", POST),
        ("--reader", USERS[0]),
    ],
)
@pytest.mark.usefixtures("sound")
def test_a_sound_stage_has_no_finding(scope: tuple[str, ...]) -> None:
    ran = audit(*scope, "--json")
    assert ran.exit_code == 0, ran.said
    assert not found(ran)
    assert ran.json["pairs"] == ran.json["pairs_wanted"] > 0


def test_one_post_finds_every_row_that_was_deleted_by_hand(sound: System) -> None:
    take(sound, *USERS[3:9])
    ran = audit("--post", POST, "--json")
    assert (ran.exit_code, found(ran)) == (1, {"entry_missing": 6})
    assert sorted(each["user_id"] for each in ran.json["examples"]) == sorted(USERS[3:9])
    assert ran.json["pairs"] == len(USERS)


@pytest.mark.parametrize("scope", [("--sample", "200"), ("--reader", USERS[0])])
def test_a_follow_under_a_block_is_found_and_owed_nothing(
    sound: System, scope: tuple[str, ...]
) -> None:
    key = row_key(USERS[0], "ada")
    block = expressions(sets={"shut": number(1)})
    sound.dynamodb.update_item(TableName=names.FOLLOWING.name, Key=key, **block)
    take(sound, USERS[0])
    ran = audit(*scope, "--json")
    assert (ran.exit_code, found(ran)) == (1, {"blocked": 1})
    (example,) = ran.json["examples"]
    assert (example["user_id"], example["publisher_id"]) == (USERS[0], "ada")


def test_who_waits_for_approval_has_no_finding(sound: System) -> None:
    choose(sound, private=True)
    assert follow(sound, "bob").status == 202
    sound.publish("later")
    sound.pump()
    sound.clock.advance(LATER_SECONDS)
    for scope in (("--sample", "200"), ("--reader", "bob")):
        assert not found(audit(*scope, "--json"))


def test_a_sample_finds_rows_that_were_deleted_by_hand(sound: System) -> None:
    take(sound, *USERS[::2])
    ran = audit("--sample", "60", "--json")
    assert ran.exit_code == 1
    assert found(ran)["entry_missing"] > 5


def test_one_reader_is_audited_alone(sound: System) -> None:
    take(sound, USERS[4])
    assert audit("--reader", USERS[3], "--json").exit_code == 0
    ran = audit("--reader", USERS[4], "--json")
    assert (ran.exit_code, found(ran)) == (1, {"entry_missing": 1})


def test_a_repair_writes_what_is_missing_and_the_ledger_counts_it(sound: System) -> None:
    take(sound, *USERS[3:9])
    ran = audit("--post", POST, "--repair", "--json")
    assert (ran.exit_code, ran.json["repaired"]) == (0, 6), ran.said
    assert len(sound.reached()) == len(USERS)
    assert sound.ledger().repaired == 6
    take(sound, USERS[0])
    assert audit("--post", POST, "--repair").exit_code == 0
    assert sound.ledger().repaired == 7
    assert audit("--post", POST).exit_code == 0


def test_without_repair_nothing_is_written(sound: System) -> None:
    take(sound, *USERS[3:9])
    before = sound.dump()
    ran = audit("--post", POST)
    assert f"fanfold audit --post {POST} --repair" in ran.said
    audit("--sample", "50")
    assert sound.dump() == before


class Interrupted:
    """DynamoDB, beside which something happens after the first read of these tables."""

    def __init__(self, system: System, tables: set[str], act: Callable[[], object]) -> None:
        self.client, self.tables, self.act = system.dynamodb, tables, act

    def __getattr__(self, name: str) -> Any:
        call = getattr(self.client, name)

        def late(**request: Any) -> Any:
            answer = call(**request)
            if self.tables & request.get("RequestItems", {}).keys():
                self.tables = set()
                self.act()
            return answer

        return late


def test_an_unfollow_during_an_audit_shows_nobody_without_a_follow(sound: System) -> None:
    tables = {names.FOLLOWING.name, names.READERS.name}
    user = USERS[0]
    client: Any = Interrupted(sound, tables, lambda: sound.unfollow(user))
    reads = Reads(Stores(client, sound.settings))
    (shown,) = reads.consistent.shown([(user, entry) for entry in reads.entries(user)])
    assert shown.row.is_active or shown.is_hidden


def test_a_post_that_was_retracted_or_unfollowed_is_missed_by_nobody(sound: System) -> None:
    take(sound, *USERS)
    sound.unfollow(USERS[1])
    sound.posts.retract(POST, "ada", retracted_at=clock.now_ms(), expires_at=2_000_000_000)
    ran = audit("--sample", "20", "--json")
    assert not found(ran)
    assert ran.exit_code == 2, "nothing could be claimed"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "Choose what to audit"),
        (("--sample", "5", "--post", POST), "Choose what to audit"),
        (("--sample", "5", "--repair"), "--repair needs --post"),
        (("--post", ""), "'' is not a valid id"),
        (("--reader", ""), "'' is not a valid id"),
        (("--sample", "5", "--since", ""), "'--since' is neither a time"),
    ],
)
def test_what_cannot_be_audited_is_refused(options: tuple[str, ...], said: str) -> None:
    ran = audit(*options)
    assert ran.exit_code
    assert said in ran.said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--post", POST, "--since", "2026-11-20"), "--since leaves out posts; --post names one:"),
        (("--post", POST, "--hours", "24"), "--hours is for --sample and --largest:"),
        (("--reader", "bob", "--hours", "24"), "--hours is for --sample and --largest:"),
    ],
)
def test_an_option_that_would_change_nothing_is_refused(
    options: tuple[str, ...], said: str
) -> None:
    ran = audit(*options)
    assert (ran.exit_code, said in ran.said) == (2, True)


def test_a_post_that_is_still_delivered_is_refused_with_what_to_do(system: System) -> None:
    system.follow("bob")
    system.publish()
    ran = audit("--post", POST)
    assert ran.exit_code == 1
    assert f"fanfold fanout resend {POST}" in ran.said


def test_an_audit_of_nothing_is_not_enough(system: System) -> None:
    ran = audit("--sample", "10")
    assert ran.exit_code == 2
    assert "0 of 10 pairs" in ran.said


@pytest.mark.usefixtures("sound")
def test_a_throttled_audit_says_how_much_it_has_read() -> None:
    ran = audit("--sample", "10", dynamodb=Patched(scan=throttled))
    assert ran.exit_code == 2
    assert "Not enough read: 0 of 10 pairs" in ran.said


def test_the_metric_is_put_with_what_is_missing(sound: System) -> None:
    take(sound, *USERS[:4])
    cloudwatch = Mock()
    audit("--post", POST, "--metric", cloudwatch=cloudwatch)
    (datum,) = cloudwatch.put_metric_data.call_args.kwargs["MetricData"]
    assert (datum["MetricName"], datum["Value"]) == (names.AUDIT_MISSING, 4)


def test_a_sample_ends_with_its_bound_units_and_price(sound: System) -> None:
    ran = audit("--sample", "100")
    assert "95 %: fewer than 3/100 of pairs are missing (0.03)." in ran.stdout
    assert "$0.00" in ran.stdout
    del sound


def test_units_are_counted_and_held_at_the_rate(sound: System) -> None:
    meter = Meter(rate=10)
    client: Any = Metered(sound.dynamodb, meter)
    begun = sound.clock.now
    for _ in Audit(Reads(Stores(client, sound.settings)), clock.chance).sample(50, hours=24):
        pass
    assert meter.units > 20
    assert sound.clock.now - begun >= meter.units / 10 - 1


def test_a_missing_entry_takes_seven_read_units_more(sound: System, engine: str) -> None:
    if engine != engines.MODEL:
        pytest.skip("DynamoDB Local counts fewer read units than AWS for items that are not there")
    complete = audit("--post", POST, "--json").json["read_units"]
    take(sound, USERS[0])
    assert audit("--post", POST, "--json").json["read_units"] == complete + 7


def test_posts_before_a_time_are_left_out(sound: System) -> None:
    take(sound, *USERS)
    sound.clock.advance(60)
    later = times.to_text(clock.now_ms())
    ran = audit("--sample", "20", "--since", later, "--json")
    assert (ran.exit_code, found(ran)) == (2, {})


def test_entries_before_a_time_are_left_out_as_their_posts_are(sound: System) -> None:
    key = {"ref_id": text(POST)}
    sound.dynamodb.delete_item(TableName=names.POSTS.name, Key=key)
    sound.clock.advance(60)
    assert found(audit("--reader", USERS[0], "--json")) == {"post_missing": 1}
    later = times.to_text(clock.now_ms())
    assert not found(audit("--reader", USERS[0], "--since", later, "--json"))


def test_a_post_in_a_channel_is_found_missing_there_and_overlooked(sound: System) -> None:
    head = sound.promote("ada")
    for user in USERS:
        sound.timeline(user)
    change_row(sound, "by", text("channel"))
    ran = audit("--post", POST, "--json")
    assert ran.exit_code == 1, ran.said
    assert found(ran) == {Finding.ENTRY_MISSING.value: len(USERS)}
    assert audit("--post", POST, "--repair").exit_code == 0
    items = sound.rows(names.TIMELINES)
    assert "#ada" in {item["user_id"]["S"] for item in items}
    # One reader's row is complete to the head, without the channel.
    sound.dynamodb.update_item(
        TableName=names.READERS.name,
        Key={"user_id": text(USERS[0])},
        UpdateExpression="SET channels_seen = :seen REMOVE channels",
        ExpressionAttributeValues={":seen": number(head.version)},
    )
    ran = audit("--post", POST, "--json")
    assert found(ran)["overlooked"] >= 1
    assert USERS[0] in {each["user_id"] for each in ran.json["examples"]}


@pytest.mark.parametrize("segment", range(4))
def test_a_lost_segment_of_one_of_the_largest_posts_is_found_surely(
    sound: System, segment: int
) -> None:
    change_row(sound, "segments", number(4))
    take(sound, *(user for user in USERS if ring.shard_of(ring.position(user), 2) == segment))
    ran = audit("--largest", "1", "--json")
    assert ran.exit_code == 1
    assert found(ran)["entry_missing"] >= 1

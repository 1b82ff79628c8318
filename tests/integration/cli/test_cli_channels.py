"""`fanfold channels`: channels are listed, added and demoted."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from fanfold import names, times
from fanfold.channels.head import MOST, Head, key_of, readable_until
from fanfold.channels.head_table import KEY
from tests.commands import NAMED, FakeLambda, Patched, Ran, Stack, outputs, run_on
from tests.service import AT_MS, REGION, System, error

THRESHOLD = 1_000_000
UNTIL = readable_until(AT_MS, 30)
NOBODY = "Nobody follows 'ada' yet; is the id right?"


def stack(threshold: int | None = THRESHOLD, **clients: Any) -> Stack:
    is_on = threshold is not None
    extra = {names.CHANNEL_THRESHOLD_OUTPUT: str(threshold)} if is_on else {}
    return Stack(REGION, None, outputs() | extra, {"lambda": FakeLambda(), **clients}, **NAMED)


def channels(*arguments: str, threshold: int | None = THRESHOLD, **clients: Any) -> Ran:
    return run_on(stack(threshold, **clients), "channels", *arguments)


# list


@pytest.mark.usefixtures("system")
def test_a_stage_where_nobody_has_a_channel_lists_none() -> None:
    ran = channels("list")
    assert (ran.exit_code, ran.stdout) == (0, f"0 of {MOST}.\n")
    assert channels("list", "--json").json == {"channels": [], "most": MOST, "threshold": THRESHOLD}


def test_the_list_has_state_posts_and_followers_of_each(system: System) -> None:
    head = Head()
    for publisher, followers in (("ada", 2_000_000), ("[b]ea", 9_000_000)):
        head = system.heads.add(publisher, head, followers=followers) or head
    system.heads.raise_seq("ada", "2026-11-20T18:00:00.123Z#post")
    system.heads.demote("[b]ea", until=UNTIL)
    ran = channels("list")
    lines = [line for line in ran.stdout.splitlines() if "│" in line]
    assert [[cell.strip() for cell in line.split("│")[1:5]] for line in lines[:2]] == [
        ["[b]ea", f"demoted, readable until {times.to_text(UNTIL * 1000)}", "0", "9,000,000"],
        ["ada", "active", "1", "2,000,000"],
    ]
    assert ran.stdout.endswith(f"\n2 of {MOST}.\n")
    demoted, active = channels("list", "--json").json["channels"]
    assert demoted == {
        "publisher_id": "[b]ea",
        "state": "demoted",
        "readable_until": times.to_text(UNTIL * 1000),
        "posts_put": 0,
        "followers_estimated": 9_000_000,
    }
    assert (active["state"], active["readable_until"], active["posts_put"]) == ("active", None, 1)


# add


def test_add_says_what_it_means_for_readers(system: System) -> None:
    system.publishers.raise_to("ada", 2, now_ms=AT_MS)
    system.give_followers(40, level=2)
    ran = channels("add", "ada", "--yes")
    assert "one channel, which 40 followers read" in ran.said
    assert "about 10 write units a post instead of 48" in ran.said
    assert "visible within about 1 s in every warm container" in ran.said
    assert "Older posts stay where they are." in ran.said
    assert NOBODY not in ran.said
    assert ran.stdout == f"New posts of 'ada' go into its channel: 1 channel of {MOST}.\n"
    ada = system.heads.get().of("ada")
    assert ada is not None
    assert (ada.is_active, ada.followers) == (True, 40)


def test_add_can_be_repeated(system: System) -> None:
    """Without a question, which nobody could answer here."""
    head = system.promote("ada")
    ran = channels("add", "ada")
    assert ran.exit_code == 0
    assert ran.stdout == f"'ada' has a channel already: 1 channel of {MOST}.\n"
    content = channels("add", "ada", "--json").json
    assert (content["was"], content["state"], content["changed"]) == ("active", "active", False)
    assert system.heads.get() == head


def test_a_demoted_channel_can_be_added_again_with_a_doubt_if_it_has_no_followers(
    system: System,
) -> None:
    system.promote("ada")
    system.heads.demote("ada", until=UNTIL)
    ran = channels("add", "ada", "--yes", "--json")
    assert (ran.exit_code, NOBODY in ran.said) == (0, True)
    assert (ran.json["was"], ran.json["state"], ran.json["changed"]) == ("demoted", "active", True)
    assert ran.json["readable_until"] is None


def fill(system: System) -> Head:
    """Take all places, by one put: moto takes seconds for 64 updates."""
    (only,) = system.promote("publisher-0").channels
    table = system.heads.table
    item = system.dynamodb.get_item(TableName=table, Key=KEY)["Item"]
    row = item["channels"]["M"][only]["M"]
    publishers = [f"publisher-{number}" for number in range(MOST)]
    item["channels"] = {
        "M": {key_of(each): {"M": {**row, "id": {"S": each}}} for each in publishers}
    }
    system.dynamodb.put_item(TableName=table, Item=item)
    return system.heads.get()


def test_when_all_are_taken_a_sentence_says_until_when(system: System) -> None:
    head = fill(system)
    ran = channels("add", "ada")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "All 64 channels are taken, and none is demoted." in ran.said
    assert "posts of 'ada' are delivered to each follower" in ran.said
    assert system.heads.get() == head
    for publisher, until in (("publisher-9", UNTIL + 9), ("publisher-3", UNTIL)):
        system.heads.demote(publisher, until=until)
    said = channels("add", "ada", "--yes").said
    assert f"the next one is free after {times.to_text(UNTIL * 1000)}" in said
    assert channels("add", "publisher-3", "--yes").exit_code == 0, "it has its place"


@pytest.mark.parametrize(
    ("others", "is_added", "said"),
    [
        (["bea", "cem"], True, "3 channels of 64"),
        (["ada"], True, "1 channel of 64"),
        ([f"publisher-{number}" for number in range(9)], False, "added at the same time"),
    ],
)
def test_add_goes_on_from_channels_that_come_between_unless_there_are_too_many(
    system: System, others: list[str], is_added: bool, said: str
) -> None:
    waiting = iter(others)

    def update_item(**request: Any) -> Any:
        other = next(waiting, None)
        if other:
            system.promote(other)
        return racing.client.update_item(**request)

    racing = Patched(update_item=update_item)
    ran = channels("add", "ada", "--yes", dynamodb=racing)
    assert said in ran.stdout + ran.said
    assert ran.exit_code == (0 if is_added else 1)
    assert (system.heads.get().of("ada") is not None) == is_added


def test_the_last_place_may_be_taken_while_add_asks(system: System) -> None:
    def update_item(**request: Any) -> Any:
        fill(system)
        return racing.client.update_item(**request)

    racing = Patched(update_item=update_item)
    ran = channels("add", "ada", "--yes", dynamodb=racing)
    assert ran.exit_code == 1
    assert "All 64 channels are taken" in ran.said


# demote


def test_demote_says_what_a_post_costs_again(system: System) -> None:
    system.give_followers(40)
    system.promote("ada")
    functions: Any = {"lambda": FakeLambda(retention_days=7, longest_retention_days=30)}
    ran = channels("demote", "ada", "--yes", **functions)
    assert "to each of 40 followers again, at 48 write units and $0.00003" in ran.said
    assert "stays readable for 38 days" in ran.said
    readable = times.to_text(UNTIL * 1000)
    assert ran.stdout == (
        f"The channel of 'ada' is demoted now, and readable until {readable}: 1 channel of 64.\n"
    )
    ada = system.heads.get().of("ada")
    assert ada is not None
    assert ada.until == UNTIL


def test_demote_says_that_plan_will_give_a_large_publisher_a_channel_again(system: System) -> None:
    system.give_followers(40)
    system.promote("ada", "bea")
    for publisher, is_said in (("ada", True), ("bea", False)):
        ran = channels("demote", publisher, "--yes", threshold=40)
        assert ("PLAN gives it a channel again" in ran.said) == is_said


def test_demote_can_be_repeated_and_moves_no_date(system: System) -> None:
    """Without a question, which nobody could answer here."""
    system.promote("ada")
    system.heads.demote("ada", until=UNTIL - 5)
    ran = channels("demote", "ada")
    assert ran.exit_code == 0
    assert f"was demoted already, and readable until {times.to_text((UNTIL - 5) * 1000)}" in (
        ran.stdout
    )
    content = channels("demote", "ada", "--json").json
    assert (content["was"], content["state"], content["changed"]) == ("demoted", "demoted", False)


@pytest.mark.parametrize(("flips", "is_demoted"), [(2, True), (100, False)])
def test_demote_goes_on_where_another_flips_the_channel_unless_too_often(
    system: System, flips: int, is_demoted: bool
) -> None:
    system.promote("ada")
    done: list[Head | None] = []

    def update_item(**request: Any) -> Any:
        if len(done) == flips:
            return racing.client.update_item(**request)
        done.append(system.heads.demote("ada", until=UNTIL))
        try:
            return racing.client.update_item(**request)
        finally:
            system.promote("ada")

    racing = Patched(update_item=update_item)
    ran = channels("demote", "ada", "--yes", dynamodb=racing)
    assert ran.exit_code == (0 if is_demoted else 1)
    assert ("added again at the same time" in ran.said) != is_demoted
    ada = system.heads.get().of("ada")
    assert ada is not None
    assert ada.is_active != is_demoted


# Stages without channels


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize(
    ("arguments", "threshold", "sentences"),
    [
        ("demote ada --yes", THRESHOLD, ["'ada' has no channel"]),
        # A name without a number would be given up by `fanfold local up`.
        ("add ada --yes", None, ["gives no channels.", "-c channel_threshold=1000000000"]),
        ("list", THRESHOLD, ["The channels cannot be read: "]),
    ],
)
def test_what_cannot_be_done_is_a_sentence(
    arguments: str, threshold: int | None, sentences: list[str]
) -> None:
    unreadable = Patched(get_item=Mock(side_effect=error("AccessDeniedException")))
    clients = {"dynamodb": unreadable} if arguments == "list" else {}
    ran = channels(*arguments.split(), threshold=threshold, **clients)
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert all(each in ran.said for each in sentences)


def test_channels_that_a_stage_was_left_with_are_listed_and_demoted(system: System) -> None:
    system.promote("ada")
    assert channels("list", threshold=None).stdout.endswith("1 of 64.\n")
    assert channels("demote", "ada", "--yes", threshold=None).exit_code == 0
    ada = system.heads.get().of("ada")
    assert ada
    assert not ada.is_active

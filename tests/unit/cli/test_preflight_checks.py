"""What `fanfold preflight` says of each state of an account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold_cli.preflight.checks import (
    FoundStack,
    FoundTable,
    Result,
    Status,
    check_alarms,
    check_bootstrap,
    check_concurrency,
    check_slack,
    check_stack,
    check_warmth,
    check_write_quota,
)
from fanfold_cli.preflight.wanted import Slack, Wanted
from tests.commands import ORDINARY

DEPLOY = "npx cdk deploy -c stage=prod"
FIRST = replace(ORDINARY, is_protected=False, stack_is_protected=False)
DEV = replace(FIRST, keeps_data=False)
SLACK = Slack("T1", "C1", "fanfold-prod-{region}")
TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"
TABLE = FoundTable("the-table", is_protected=True, is_updating=False, warm_write_units=4_000)
OPEN_TABLE = replace(TABLE, is_protected=False)


def stack(status: str = "CREATE_COMPLETE", *, on: bool = True, **more: Any) -> FoundStack:
    table = TABLE if on else OPEN_TABLE
    found = {"tables": {"T1": table, "T2": table}, "pools": {"P": on}, **more}
    return FoundStack(
        status,
        more.pop("is_protected", on),
        found["tables"],
        found["pools"],
        alarm_topic=TOPIC,
        subscriptions=frozenset({"S1", "S2"}),
    )


def said(check: Result, status: Status, *words: str) -> None:
    assert check.status is status
    for word in words:
        assert word in check.sentence
    assert check.sentence.endswith((".", "?"))


ABSENT = (None, stack("REVIEW_IN_PROGRESS", on=False), stack("ROLLBACK_COMPLETE", on=False))
HALF = stack(tables={"T1": TABLE, "T2": OPEN_TABLE})
STACKS: list[tuple[Wanted, FoundStack | None, Status, tuple[str, ...]]] = [
    # A first deploy goes without protections, and says how to switch them on.
    *((ORDINARY, found, Status.REFUSED, ("add -c first_deploy=true",)) for found in ABSENT),
    *((FIRST, each, Status.OK, ("switch its protections on", f"`{DEPLOY}`")) for each in ABSENT),
    *((DEV, found, Status.OK, ()) for found in ABSENT),
    # One that failed, and is protected, cannot be replaced.
    *(
        (wanted, stack("ROLLBACK_COMPLETE"), Status.FAILS, ("update-termination-protection",))
        for wanted in (ORDINARY, FIRST)
    ),
    # A stack that takes no deploy has a page on recovery.
    *(
        (wanted, stack(status, on=on), Status.FAILS, (status, "docs/recovery.md"))
        for status in ("CREATE_FAILED", "UPDATE_ROLLBACK_FAILED")
        for wanted, on in ((ORDINARY, True), (FIRST, True), (DEV, False))
    ),
    # CDK takes an update back itself; while a deploy is under way, one has to wait.
    (ORDINARY, stack("UPDATE_FAILED"), Status.WARNING, ("UPDATE_FAILED", "asks to roll it back")),
    (FIRST, stack("UPDATE_FAILED"), Status.REFUSED, ("would remove the protection",)),
    (ORDINARY, stack("CREATE_IN_PROGRESS"), Status.WARNING, ("wait",)),
    (ORDINARY, stack("UPDATE_ROLLBACK_IN_PROGRESS"), Status.WARNING, ("wait",)),
    # What is not protected is named with the command that protects it.
    *(
        (ORDINARY, found, Status.WARNING, (f"protects {named} from", f"`{DEPLOY}`"))
        for found, named in (
            (stack(on=False), "the stack, the-table, the-table and P"),
            (stack(is_protected=False), "the stack"),
            (HALF, "the-table"),
            (stack(pools={"P": False}), "P"),
        )
    ),
    # A first deploy never takes a protection away.
    *(
        case
        for found in (
            stack(),
            stack(on=False, is_protected=True),
            stack(on=False, tables=HALF.tables),
            stack(on=False, pools={"P": True}),
        )
        for case in (
            (FIRST, found, Status.REFUSED, ("leave first_deploy out", f"`{DEPLOY}`")),
            (DEV, found, Status.REFUSED, ("right stage?",)),
        )
    ),
    # What keeps nothing needs no protection.
    (DEV, stack(on=False), Status.OK, ()),
]


@pytest.mark.parametrize(("wanted", "found", "status", "words"), STACKS)
def test_a_deploy_is_judged_by_the_stack_that_is_there(
    wanted: Wanted, found: FoundStack | None, status: Status, words: tuple[str, ...]
) -> None:
    said(check_stack(wanted, found, DEPLOY), status, *words)


def test_cdk_must_be_bootstrapped() -> None:
    said(check_bootstrap(ORDINARY, None), Status.FAILS, "run `npx cdk bootstrap`")
    said(check_bootstrap(ORDINARY, 5), Status.FAILS, "version 5", "6 is needed")
    said(check_bootstrap(ORDINARY, 6), Status.OK)


def test_workers_must_find_executions_and_leave_some_to_requests() -> None:
    for unreserved, status in (
        (85, Status.FAILS),
        (86, Status.WARNING),
        (107, Status.WARNING),
        (108, Status.OK),
    ):
        check = check_concurrency(ORDINARY, unreserved)
        said(check, status, "86 workers", f"{unreserved:,}")
        assert (f"-c concurrency={unreserved}" in check.sentence) is (status is not Status.OK)
    check = check_concurrency(replace(ORDINARY, workers=8), 9)
    said(check, Status.WARNING, "Ask AWS for more.")


@pytest.mark.parametrize(
    ("changes", "quota", "status", "value"),
    [
        ({}, 40_000, Status.OK, ""),
        ({}, 39_999, Status.WARNING, "-c max_write_request_units=39999"),
        ({"max_write_units": 10_000}, 10_000, Status.OK, ""),
        ({"max_write_units": 10_001}, 10_000, Status.FAILS, ""),
        ({"warm_write_units": 10_000}, 10_000, Status.OK, ""),
        ({"warm_write_units": 10_001}, 10_000, Status.FAILS, ""),
        ({"max_write_units": 5_000, "warm_write_units": 10_001}, 10_000, Status.FAILS, ""),
    ],
)
def test_no_table_may_want_more_than_the_account_grants(
    changes: dict[str, Any], quota: int, status: Status, value: str
) -> None:
    said(check_write_quota(replace(ORDINARY, **changes), quota), status, f"{quota:,}", value)


ANN, BOB = "ann@example.com", "bob@example.com"


@pytest.mark.parametrize(
    ("confirmed", "unheard"),
    [
        ({ANN: True, BOB: False}, [BOB]),
        ({}, [ANN, BOB]),  # SNS deletes what nobody confirms.
        ({ANN: True, BOB: True, "by-hand@example.com": False}, ["by-hand@example.com"]),
    ],
)
def test_an_address_that_never_confirmed_is_named_with_the_cure(
    confirmed: dict[str, bool], unheard: list[str]
) -> None:
    check = check_alarms(ORDINARY, stack(), confirmed)
    said(check, Status.WARNING, "the mail from AWS", f"--topic-arn {TOPIC} --protocol email")
    named = {each for each in (ANN, BOB, *confirmed) if each in check.sentence}
    assert named == set(unheard)


def test_only_an_address_that_this_deploy_subscribes_has_to_confirm_afterwards() -> None:
    found = replace(stack(), subscriptions=frozenset({"S1"}))
    said(check_alarms(ORDINARY, found, {ANN: True}), Status.OK, f"subscribes {BOB}", "confirm")
    by_slack = replace(ORDINARY, emails={}, slack=SLACK)
    check = check_alarms(by_slack, replace(found, subscriptions=frozenset()), {})
    said(check, Status.OK, "No address is subscribed")
    assert "confirm" not in check.sentence


@pytest.mark.parametrize("others", [["fanfold-prod-us-east-1"], ["ours", "fanfold-prod-eu-west-1"]])
def test_a_slack_channel_of_another_configuration_fails_the_deploy(others: list[str]) -> None:
    check = check_slack(SLACK, "eu-west-1", others)
    said(check, Status.FAILS, "C1", others[0], "once in an account", "-c slack_channel_id=")
    assert "eu-west-1" not in check.sentence


WARM = replace(ORDINARY, warm_write_units=20_000)
RAISE = "`aws dynamodb update-table --table-name {} --warm-throughput WriteUnitsPerSecond=20000`"


@pytest.mark.parametrize(
    ("timelines", "followers", "colder"),
    [
        (20_000, 40_000, []),
        (20_000, 4_000, ["F-1"]),
        (19_999, 20_000, ["T-1"]),
        (0, 0, ["T-1", "F-1"]),
    ],
)
def test_each_table_that_is_colder_than_the_lanes_assume_has_a_line_that_warms_it(
    timelines: int, followers: int, colder: list[str]
) -> None:
    found = stack(
        tables={
            "T1": replace(TABLE, name="T-1", warm_write_units=timelines),
            "T2": replace(TABLE, name="F-1", warm_write_units=followers),
        }
    )
    check = check_warmth(WARM, found)
    status = Status.WARNING if colder else Status.OK
    said(check, status, f"timelines {timelines:,}, followers {followers:,}")
    assert [name for name in ("T-1", "F-1") if RAISE.format(name) in check.sentence] == colder
    assert ("can never be lowered" in check.sentence) is bool(colder)
    said(check_warmth(ORDINARY, found), Status.OK)


def test_tables_that_do_not_exist_yet_are_warmed_later_and_one_that_changes_is_awaited() -> None:
    said(check_warmth(WARM, None), Status.OK, "how to warm them")
    said(check_warmth(WARM, stack(tables={})), Status.OK, "how to warm them")
    assert "how to warm" not in check_warmth(ORDINARY, None).sentence
    found = stack(tables={"T1": TABLE, "T3": replace(TABLE, is_updating=True), "T2": TABLE})
    said(check_warmth(ORDINARY, found), Status.WARNING, "wait")

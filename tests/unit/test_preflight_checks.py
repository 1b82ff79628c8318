"""What `fanfold preflight` says of each state of an account."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold_cli.preflight.checks import (
    Check,
    FoundStack,
    FoundTable,
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

DEPLOY = "npx cdk deploy -c stage=prod"
ORDINARY = Wanted(
    stack="Fanfold-prod",
    bootstrap_parameter="/cdk-bootstrap/hnb659fds/version",
    bootstrap_version=6,
    keeps_data=True,
    is_protected=True,
    stack_is_protected=True,
    bursting={"timelines": "T1", "followers": "T2"},
    issuer=None,
    emails={"S1": "ann@example.com", "S2": "bob@example.com"},
    slack=None,
    workers=86,
    max_write_units=None,
    warm_write_units=None,
    entry_days={},
    requests_per_second=2_000,
)
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


def said(check: Check, status: Status, *words: str) -> None:
    assert check.status is status
    for word in words:
        assert word in check.sentence
    assert check.sentence.endswith((".", "?"))


NONE = pytest.mark.parametrize(
    "found", [None, stack("REVIEW_IN_PROGRESS", on=False), stack("ROLLBACK_COMPLETE", on=False)]
)


@NONE
def test_a_first_deploy_with_protections_is_refused(found: FoundStack | None) -> None:
    said(check_stack(ORDINARY, found, DEPLOY), Status.REFUSED, "add -c first_deploy=true")


@NONE
def test_a_first_deploy_without_them_may_go_and_the_next_step_is_said(
    found: FoundStack | None,
) -> None:
    said(check_stack(FIRST, found, DEPLOY), Status.OK, "switch its protections on", f"`{DEPLOY}`")
    said(check_stack(DEV, found, DEPLOY), Status.OK)


def test_a_failed_first_deploy_that_is_protected_cannot_be_replaced() -> None:
    found = stack("ROLLBACK_COMPLETE")
    for wanted in (ORDINARY, FIRST):
        check = check_stack(wanted, found, DEPLOY)
        said(check, Status.FAILS, "update-termination-protection --stack-name Fanfold-prod")


@pytest.mark.parametrize("status", ["CREATE_FAILED", "UPDATE_ROLLBACK_FAILED"])
@pytest.mark.parametrize("wanted", [ORDINARY, FIRST, DEV])
def test_a_stack_that_takes_no_deploy_is_sent_to_the_page_on_recovery(
    wanted: Wanted, status: str
) -> None:
    for on in (True, False):
        check = check_stack(wanted, stack(status, on=on), DEPLOY)
        said(check, Status.FAILS, status, "docs/recovery.md")


def test_after_an_update_that_was_not_taken_back_cdk_takes_it_back_first() -> None:
    check = check_stack(ORDINARY, stack("UPDATE_FAILED", on=True), DEPLOY)
    said(check, Status.WARNING, "UPDATE_FAILED", "asks to roll it back first")
    check = check_stack(FIRST, stack("UPDATE_FAILED", on=True), DEPLOY)
    said(check, Status.REFUSED, "would take the protection")


@pytest.mark.parametrize("status", ["CREATE_IN_PROGRESS", "UPDATE_ROLLBACK_IN_PROGRESS"])
def test_while_another_deploy_is_under_way_one_has_to_wait(status: str) -> None:
    said(check_stack(ORDINARY, stack(status), DEPLOY), Status.WARNING, "wait")


@pytest.mark.parametrize(
    ("found", "named"),
    [
        (stack(on=False), "the stack, the-table, the-table and P"),
        (stack(is_protected=False), "protects the stack from"),
        (stack(tables={"T1": TABLE, "T2": OPEN_TABLE}), "protects the-table from"),
        (stack(pools={"P": False}), "protects P from"),
    ],
)
def test_what_is_not_protected_is_named_with_the_command_that_protects_it(
    found: FoundStack, named: str
) -> None:
    said(check_stack(ORDINARY, found, DEPLOY), Status.WARNING, named, f"`{DEPLOY}`")


@pytest.mark.parametrize(
    "found",
    [
        stack(),
        stack(on=False, is_protected=True),
        stack(on=False, tables={"T1": TABLE, "T2": OPEN_TABLE}),
        stack(on=False, pools={"P": True}),
    ],
)
def test_a_first_deploy_never_takes_a_protection_away(found: FoundStack) -> None:
    check = check_stack(FIRST, found, DEPLOY)
    said(check, Status.REFUSED, "leave first_deploy out", f"`{DEPLOY}`")
    said(check_stack(DEV, found, DEPLOY), Status.REFUSED, "right stage?")


def test_a_stage_that_keeps_nothing_needs_no_protection() -> None:
    said(check_stack(DEV, stack(on=False), DEPLOY), Status.OK)


def test_cdk_must_be_bootstrapped() -> None:
    said(check_bootstrap(ORDINARY, None), Status.FAILS, "run `npx cdk bootstrap`")
    said(check_bootstrap(ORDINARY, 5), Status.FAILS, "version 5", "6 is needed")
    said(check_bootstrap(ORDINARY, 6), Status.OK)


@pytest.mark.parametrize(
    ("unreserved", "status"),
    [
        (85, Status.FAILS),
        (86, Status.WARNING),
        (107, Status.WARNING),
        (108, Status.OK),
    ],
)
def test_workers_must_find_executions_and_leave_some_to_requests(
    unreserved: int, status: Status
) -> None:
    check = check_concurrency(ORDINARY, unreserved)
    said(check, status, "86 workers", f"{unreserved:,}")
    assert (f"-c concurrency={unreserved}" in check.sentence) is (status is not Status.OK)


def test_an_account_that_runs_less_than_a_stage_needs_has_to_ask_for_more() -> None:
    check = check_concurrency(replace(ORDINARY, workers=8), 9)
    said(check, Status.WARNING, "Ask AWS for more.")


@pytest.mark.parametrize(
    ("changes", "quota", "status"),
    [
        ({}, 40_000, Status.OK),
        ({}, 39_999, Status.WARNING),
        ({"max_write_units": 10_000}, 10_000, Status.OK),
        ({"max_write_units": 10_001}, 10_000, Status.FAILS),
        ({"warm_write_units": 10_000}, 10_000, Status.OK),
        ({"warm_write_units": 10_001}, 10_000, Status.FAILS),
        ({"max_write_units": 5_000, "warm_write_units": 10_001}, 10_000, Status.FAILS),
    ],
)
def test_no_table_may_want_more_than_the_account_grants(
    changes: dict[str, Any], quota: int, status: Status
) -> None:
    said(check_write_quota(replace(ORDINARY, **changes), quota), status, f"{quota:,}")


def test_a_quota_that_the_lanes_exceed_is_answered_with_the_value_to_give() -> None:
    said(check_write_quota(ORDINARY, 9_000), Status.WARNING, "-c max_write_request_units=9000")


ANN, BOB = "ann@example.com", "bob@example.com"


@pytest.mark.parametrize(
    ("confirmed", "unheard"),
    [
        ({ANN: True, BOB: False}, [BOB]),
        ({ANN: True}, [BOB]),  # SNS deletes what nobody confirms.
        ({}, [ANN, BOB]),
        ({ANN: True, BOB: True, "by-hand@example.com": False}, ["by-hand@example.com"]),
    ],
)
def test_an_address_that_never_confirmed_is_named_with_the_cure(
    confirmed: dict[str, bool], unheard: list[str]
) -> None:
    check = check_alarms(ORDINARY, stack(), confirmed)
    said(check, Status.WARNING, "the mail of AWS", f"--topic-arn {TOPIC} --protocol email")
    named = {each for each in (ANN, BOB, *confirmed) if each in check.sentence}
    assert named == set(unheard)


def test_an_address_that_this_deploy_subscribes_has_to_confirm_afterwards() -> None:
    found = replace(stack(), subscriptions=frozenset({"S1"}))
    check = check_alarms(ORDINARY, found, {ANN: True})
    said(check, Status.OK, f"subscribes {BOB}", "confirm")


def test_a_stage_with_slack_alone_has_no_address_to_confirm() -> None:
    found = replace(stack(), subscriptions=frozenset())
    check = check_alarms(replace(ORDINARY, emails={}, slack=SLACK), found, {})
    said(check, Status.OK, "Alarms go to no address")
    assert "confirm" not in check.sentence


@pytest.mark.parametrize("others", [["fanfold-prod-us-east-1"], ["ours", "fanfold-prod-eu-west-1"]])
def test_a_slack_channel_of_another_configuration_fails_the_deploy(others: list[str]) -> None:
    check = check_slack(SLACK, "eu-west-1", others)
    said(check, Status.FAILS, "C1", others[0], "once in an account", "-c slack_channel_id=")
    assert "eu-west-1" not in check.sentence


WARM = replace(ORDINARY, warm_write_units=20_000)
RAISE = "`aws dynamodb update-table --table-name {} --warm-throughput WriteUnitsPerSecond=20000`"


def test_tables_that_do_not_exist_yet_are_warmed_later() -> None:
    said(check_warmth(WARM, None), Status.OK, "how to warm them")
    said(check_warmth(WARM, stack(tables={})), Status.OK, "how to warm them")
    assert "how to warm" not in check_warmth(ORDINARY, None).sentence


@pytest.mark.parametrize(
    ("timelines", "followers", "colder"),
    [
        (20_000, 20_000, []),
        (24_000, 40_000, []),
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


def test_while_dynamodb_changes_a_table_a_deploy_has_to_wait() -> None:
    found = stack(tables={"T1": TABLE, "T2": TABLE, "T3": replace(TABLE, is_updating=True)})
    said(check_warmth(ORDINARY, found), Status.WARNING, "wait")

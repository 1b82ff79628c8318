"""`fanfold preflight --roll-back` looks for what an earlier release would not heed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold import names
from fanfold_cli.preflight.account import Account
from fanfold_cli.preflight.checks import Result, Status, check_roll_back
from tests.commands import ORDINARY
from tests.integration.follows.test_private import choose, decide, follow
from tests.service import REGION, System


@pytest.fixture
def account(system: System, monkeypatch: pytest.MonkeyPatch) -> Account:
    tables = [{"OutputKey": each.output, "OutputValue": each.name} for each in names.TABLES]

    class CloudFormation:
        def describe_stacks(self, **_of: Any) -> Any:
            return {"Stacks": [{"Outputs": tables}]}

    clients = {"cloudformation": CloudFormation(), "dynamodb": system.dynamodb}
    monkeypatch.setattr(Account, "_client", lambda _self, name: clients[name])
    return Account(REGION)


def checked(account: Account, **wanted: Any) -> Result:
    return check_roll_back(replace(ORDINARY, **wanted), account.known_here_alone("Fanfold-prod"))


def test_a_stage_of_public_publishers_may_be_rolled_back(system: System, account: Account) -> None:
    for private in (True, False):
        choose(system, private=private)
    follow(system)
    assert decide(system, "block", "eve").status == 204
    assert decide(system, "unblock", "eve").status == 204
    assert checked(account).status is Status.OK


def test_no_request_block_or_private_publisher_is_left_to_an_earlier_release(
    system: System, account: Account
) -> None:
    choose(system, private=True)
    follow(system)
    for user in ("eve", "fay"):
        assert decide(system, "block", user).status == 204
    check = checked(account)
    assert check.status is Status.REFUSED
    assert "has 2 blocks, 1 private publisher and 1 request." in check.sentence


def test_a_stage_that_is_private_by_default_is_not_rolled_back(account: Account) -> None:
    assert checked(account, private_by_default=True).status is Status.REFUSED

"""`fanfold preflight`: before a deploy, and after it, what will work and what will not."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold_cli.aws import check_credentials
from fanfold_cli.local import context as contexts
from fanfold_cli.options import ContextOption, JsonOption
from fanfold_cli.preflight import checks
from fanfold_cli.preflight.account import Account
from fanfold_cli.preflight.checks import STOPS, Check, FoundStack, Status
from fanfold_cli.preflight.issuer import check_issuer, fetch
from fanfold_cli.preflight.synthesis import synthesize
from fanfold_cli.preflight.wanted import Wanted
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import aws_region
from fanfold_cli.terminal import (
    ExpectedError,
    counted,
    interrupted_with,
    print_json,
    print_result,
    say,
)
from fanfold_client.connections import is_loopback


def preflight(
    context: ContextOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check whether a deploy would succeed, without changing anything; exit code 1 if not."""
    given = context or []
    contexts.read(given, example="stage=prod")
    with interrupted_with("nothing was changed."):
        # Early, because a synthesis takes a while. Any other fault is one of the checks.
        with suppress(BotoCoreError):
            check_credentials()
        say("Synthesizing the stack.")
        with waiting_for("CDK", is_said=True):
            wanted = Wanted.by(synthesize(given))
        say("Asking the account and the issuer.")
        with waiting_for("the account and the issuer", is_said=True):
            found = list(_checks(wanted, ordinary_deploy(given)))
    stops = [check for check in found if check.status in STOPS]
    if as_json:
        print_json({"stack": wanted.stack, "checks": [asdict(check) for check in found]})
    else:
        _print(found)
        conclusion = "Do not deploy yet" if stops else "Nothing stands in the way of a deploy"
        say(f"{conclusion}: {counted(len(stops), 'check')} of {len(found)} failed.")
    if stops:
        raise typer.Exit(1)


def ordinary_deploy(context: list[str]) -> str:
    """The command that deploys with these values, and with protections."""
    kept = [value for value in context if value.partition("=")[0].strip() != "first_deploy"]
    return shlex.join(["npx", "cdk", "deploy", *(word for value in kept for word in ("-c", value))])


def _checks(wanted: Wanted, deploy: str) -> Iterator[Check]:
    if wanted.issuer is not None:
        yield check_issuer(wanted.issuer, fetch)
    if (elsewhere := os.environ.get("AWS_ENDPOINT_URL")) and is_loopback(elsewhere):
        yield Check(
            "account",
            Status.FAILS,
            f"AWS_ENDPOINT_URL is {elsewhere}, so a local engine would answer for AWS: open "
            "another shell, or run `unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID "
            "AWS_SECRET_ACCESS_KEY`.",
        )
        return
    try:
        account = Account(aws_region())
        number = account.number()
    # botocore answers an AWS_ENDPOINT_URL that is no address with a ValueError.
    except (ExpectedError, ClientError, BotoCoreError, ValueError) as error:
        yield Check(
            "account",
            Status.FAILS,
            f"AWS cannot be asked, so the other checks are left out: {error}",
        )
        return
    yield Check("account", Status.OK, f"This is account {number}, region {account.region}.")
    yield from _of_account(wanted, account, deploy)


def _of_account(wanted: Wanted, account: Account, deploy: str) -> Iterator[Check]:
    def bootstrap() -> list[Check]:
        version = account.bootstrap_version(wanted.bootstrap_parameter)
        return [checks.check_bootstrap(wanted, version)]

    found: FoundStack | None = None
    unread: Exception | None = None

    def stack() -> list[Check]:
        nonlocal found, unread
        try:
            found = account.stack(wanted.stack)
        except (ClientError, BotoCoreError) as error:
            unread = error
            raise
        return [checks.check_stack(wanted, found, deploy)]

    def warmth() -> list[Check]:
        if unread:
            raise unread
        return [checks.check_warmth(wanted, found)]

    def retention() -> list[Check]:
        if unread:
            raise unread
        if found is None or not found.has_lived:
            return []
        return [checks.check_retention(wanted, account.entry_days(wanted.stack))]

    def alarms() -> list[Check]:
        if unread:
            raise unread
        if found is None or found.alarm_topic is None:
            return []
        return [checks.check_alarms(wanted, found, account.addresses(found.alarm_topic))]

    def slack() -> list[Check]:
        if wanted.slack is None:
            return []
        names = account.slack_configurations(wanted.slack)
        return [checks.check_slack(wanted.slack, account.region, names)]

    def concurrency() -> list[Check]:
        return [checks.check_concurrency(wanted, account.unreserved_concurrency())]

    def quota() -> list[Check]:
        return [checks.check_write_quota(wanted, account.write_quota())]

    def requests() -> list[Check]:
        return [checks.check_requests(wanted, account.requests_per_second())]

    asked: dict[str, Callable[[], list[Check]]] = {
        "bootstrap": bootstrap,
        "stack": stack,
        "warm tables": warmth,
        "retention": retention,
        "alarms": alarms,
        "Slack": slack,
        "concurrency": concurrency,
        "write quota": quota,
        "requests": requests,
    }
    for name, ask in asked.items():
        try:
            yield from ask()
        except (ClientError, BotoCoreError) as error:
            yield checks.unchecked(name, error)


def _print(found: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "result", "what it means")
    for check in found:
        table.add_row(check.name, check.status.value, Text(check.sentence))
    print_result(table)

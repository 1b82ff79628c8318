"""`fanfold preflight`: check whether a deploy would succeed, or what a deployed stack lacks."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

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
    roll_back: Annotated[
        bool,
        typer.Option(
            "--roll-back", help="Also check for what a release without private publishers ignores."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check whether a deploy would succeed, without changing anything; exit code 1 if not."""
    given = context or []
    contexts.read(given, example="stage=prod")
    with interrupted_with("nothing was changed."):
        # First, because a synthesis takes a while. Other faults of credentials fail a check.
        with suppress(BotoCoreError):
            check_credentials()
        say("Synthesizing the stack.")
        with waiting_for("CDK", is_said=True):
            wanted = Wanted.by(synthesize(given))
        say("Asking the account and the issuer.")
        with waiting_for("the account and the issuer", is_said=True):
            found = list(_checks(wanted, ordinary_deploy(given), roll_back=roll_back))
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
    """The command that deploys with these values, and with deletion protection."""
    kept = [value for value in context if value.partition("=")[0].strip() != "first_deploy"]
    return shlex.join(["npx", "cdk", "deploy", *(word for value in kept for word in ("-c", value))])


def _checks(wanted: Wanted, deploy: str, *, roll_back: bool = False) -> Iterator[Check]:
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
    # botocore raises a ValueError for an AWS_ENDPOINT_URL that is not a URL.
    except (ExpectedError, ClientError, BotoCoreError, ValueError) as error:
        yield Check(
            "account",
            Status.FAILS,
            f"AWS cannot be asked, so the other checks are left out: {error}",
        )
        return
    yield Check("account", Status.OK, f"This is account {number}, region {account.region}.")
    yield from _of_account(wanted, account, deploy, roll_back=roll_back)


def _of_account(
    wanted: Wanted, account: Account, deploy: str, *, roll_back: bool
) -> Iterator[Check]:
    found: FoundStack | None = None
    unread: Exception | None = None

    def stack() -> Check:
        nonlocal found, unread
        try:
            found = account.stack(wanted.stack)
        except (ClientError, BotoCoreError) as error:
            unread = error
            raise
        return checks.check_stack(wanted, found, deploy)

    def read() -> FoundStack | None:
        if unread:
            raise unread
        return found

    def retention() -> Check | None:
        if (stack := read()) is None or not stack.has_lived:
            return None
        return checks.check_retention(wanted, account.entry_days(wanted.stack))

    def rolled_back() -> Check | None:
        if not roll_back or (stack := read()) is None or not stack.has_lived:
            return None
        return checks.check_roll_back(wanted, account.known_here_alone(wanted.stack))

    def alarms() -> Check | None:
        if (stack := read()) is None or stack.alarm_topic is None:
            return None
        return checks.check_alarms(wanted, stack, account.addresses(stack.alarm_topic))

    def slack() -> Check | None:
        if wanted.slack is None:
            return None
        names = account.slack_configurations(wanted.slack)
        return checks.check_slack(wanted.slack, account.region, names)

    asked: dict[str, Callable[[], Check | None]] = {
        "bootstrap": lambda: checks.check_bootstrap(
            wanted, account.bootstrap_version(wanted.bootstrap_parameter)
        ),
        "stack": stack,
        "warm tables": lambda: checks.check_warmth(wanted, read()),
        "retention": retention,
        "roll back": rolled_back,
        "alarms": alarms,
        "Slack": slack,
        "concurrency": lambda: checks.check_concurrency(wanted, account.unreserved_concurrency()),
        "write quota": lambda: checks.check_write_quota(wanted, account.write_quota()),
        "requests": lambda: checks.check_requests(wanted, account.requests_per_second()),
    }
    for name, ask in asked.items():
        try:
            if check := ask():
                yield check
        except (ClientError, BotoCoreError) as error:
            yield checks.unchecked(name, error)


def _print(found: list[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table("check", "result", "what it means")
    for check in found:
        table.add_row(check.name, check.status.value, Text(check.sentence))
    print_result(table)

"""`fanfold preflight`: check whether a deploy would succeed, or what a deployed stack lacks."""

import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from fanfold_cli.aws import check_credentials
from fanfold_cli.local import context as contexts
from fanfold_cli.options import ContextOption, JsonOption
from fanfold_cli.preflight import checks
from fanfold_cli.preflight.account import Account
from fanfold_cli.preflight.checks import STOPS, FoundStack, Result, fails, ok
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
    text_table,
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
    stops = [name for name, result in found if result.status in STOPS]
    if as_json:
        checked = [{"name": name, **result._asdict()} for name, result in found]
        print_json({"stack": wanted.stack, "checks": checked})
    else:
        rows = ((name, result.status.value, result.sentence) for name, result in found)
        print_result(text_table(("check", "result", "what it means"), rows))
        conclusion = "Do not deploy yet" if stops else "Nothing stands in the way of a deploy"
        say(f"{conclusion}: {counted(len(stops), 'check')} of {len(found)} failed.")
    if stops:
        raise typer.Exit(1)


def ordinary_deploy(context: list[str]) -> str:
    """The command that deploys with these values, and with deletion protection."""
    kept = [value for value in context if value.partition("=")[0].strip() != "first_deploy"]
    return shlex.join(["npx", "cdk", "deploy", *(word for value in kept for word in ("-c", value))])


def _checks(
    wanted: Wanted, deploy: str, *, roll_back: bool = False
) -> Iterator[tuple[str, Result]]:
    if wanted.issuer is not None:
        yield "issuer", check_issuer(wanted.issuer, fetch)
    if (elsewhere := os.environ.get("AWS_ENDPOINT_URL")) and is_loopback(elsewhere):
        other = fails(
            f"AWS_ENDPOINT_URL is {elsewhere}, so a local engine would answer for AWS: open "
            "another shell, or run `unset AWS_ENDPOINT_URL AWS_ACCESS_KEY_ID "
            "AWS_SECRET_ACCESS_KEY`."
        )
        yield "account", other
        return
    try:
        account = Account(aws_region())
        number = account.number()
    # botocore raises a ValueError for an AWS_ENDPOINT_URL that is not a URL.
    except (ExpectedError, ClientError, BotoCoreError, ValueError) as error:
        yield "account", fails(f"AWS cannot be asked, so the other checks are left out: {error}")
        return
    yield "account", ok(f"This is account {number}, region {account.region}.")
    yield from _of_account(wanted, account, deploy, roll_back=roll_back)


def _of_account(
    wanted: Wanted, account: Account, deploy: str, *, roll_back: bool
) -> Iterator[tuple[str, Result]]:
    found: FoundStack | None = None
    unread: Exception | None = None

    def stack() -> Result:
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

    def retention() -> Result | None:
        if (stack := read()) is None or not stack.has_lived:
            return None
        return checks.check_retention(wanted, account.entry_days(wanted.stack))

    def rolled_back() -> Result | None:
        if not roll_back or (stack := read()) is None or not stack.has_lived:
            return None
        return checks.check_roll_back(wanted, account.known_here_alone(wanted.stack))

    def alarms() -> Result | None:
        if (stack := read()) is None or stack.alarm_topic is None:
            return None
        return checks.check_alarms(wanted, stack, account.addresses(stack.alarm_topic))

    def slack() -> Result | None:
        if wanted.slack is None:
            return None
        names = account.slack_configurations(wanted.slack)
        return checks.check_slack(wanted.slack, account.region, names)

    asked: dict[str, Callable[[], Result | None]] = {
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
            if result := ask():
                yield name, result
        except (ClientError, BotoCoreError) as error:
            yield name, checks.unchecked(error)

"""A run, from the question to the report: on a separate stack on AWS, or on the local engine."""

import os
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import typer

from fanfold_cli.aws import EXPECTED
from fanfold_cli.console.opening import ended_by_signals
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.run.people import People
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import INTERRUPTED, ask, counted, print_result, say
from proof.aws_verify import troubles
from proof.aws_verify.course import Course
from proof.aws_verify.forecast import Forecast, forecast
from proof.aws_verify.own_stack import OwnStack
from proof.aws_verify.report import Report
from proof.aws_verify.script import LARGE, Script

WAS_INTERRUPTED = "The run was interrupted."
# The counts of a forecast.
COUNTS = ("entries", "follows", "posts", "write_units")
# The answer to the question if there is no terminal.
ANSWER = "YES=1 (--yes without make)"


@dataclass(frozen=True)
class Run:
    """The options of a run; times in seconds."""

    sizes: tuple[int, ...]
    to: Path  # the directory of the report
    hold: float  # the duration of each trouble
    patience: float  # the longest wait without progress
    concurrency: int | None  # of the account, that the stage may take
    keep: bool
    yes: bool

    def on_aws(self, own: OwnStack, place: str, region: str) -> None:
        """Deploy, run, report and remove."""
        script = Script(_tag(), self.sizes)
        expected = forecast(script, troubles=len(troubles.ON_AWS))
        own.refuse_another()
        print_result(intention(own.name, region, script, expected, keep=self.keep))
        ask("Go on?", place=place, yes=self.yes, answer=ANSWER)
        report = report_of(script, expected, where=f"AWS, {region}", is_local=False)
        name, run = _name(own.name), run_of(report.sections["run"]["began"], script.tag)
        with tempfile.TemporaryDirectory(prefix="aws-verify-") as work, _signals():
            try:
                with _reporting(report):
                    facts = report.sections["run"]
                    began = time.monotonic()
                    deployed = own.deploy(
                        Path(work), region=region, run=run, concurrency=self.concurrency
                    )
                    facts["deploy_seconds"] = round(time.monotonic() - began, 1)
                    self._course(deployed, script, report, own.name).run(expected)
            finally:
                go_on_unheard()
                try:
                    # Before the removal, so that the report is not lost.
                    _save(report, self.to, name)
                finally:
                    report.sections["end"] = (
                        {"stack": f"kept; `{own.command}` removes it"}
                        if self.keep
                        else _tear_down(own, run, report)
                    )
                _save(report, self.to, name)
        _exit(report)

    def locally(self, deployment: Deployment) -> None:
        """Run on the engine's own stack, which remains, and report."""
        script = Script(_tag(), self.sizes)
        possible = [each for each in troubles.LOCALLY if not each.not_here]
        expected = forecast(script, troubles=len(possible))
        print_result(
            f"This publishes {counted(expected.posts, 'post')} to {_listed(self.sizes)} followers "
            "on the local engine, and disturbs their deliveries. It costs nothing."
        )
        ask("Go on?", place=deployment.place, yes=self.yes, answer=ANSWER)
        report = report_of(script, expected, where="the local engine", is_local=True)
        report.skip("deploying a stack and removing it", "the engine's own is used, and stays")
        with _signals():
            try:
                with _reporting(report):
                    self._course(deployment, script, report).run(expected)
            finally:
                _save(report, self.to, _name("local"))
        _exit(report)

    def _course(
        self, deployment: Deployment, script: Script, report: Report, stack: str = ""
    ) -> Course:
        return Course(People(deployment), stack, script, report, self.hold, self.patience)


def remove(own: OwnStack, place: str, *, yes: bool) -> None:
    """Remove what an earlier run has left; asks first."""
    left = own.find()
    if left is None:
        print_result(f"There is no stack {own.name}.")
        return
    print_result(f"The stack {own.name} ({left.status}) was made by the run {left.run}.")
    ask("Remove it with all its data?", place=place, yes=yes, answer=ANSWER)
    own.remove(left.run)
    print_result(f"The stack {own.name} is removed.")


def intention(stack: str, region: str, script: Script, expected: Forecast, *, keep: bool) -> str:
    """What a run will do and cost, for the question."""
    lines = "\n".join(f"  {line.what}: about ${line.dollars:,.2f}" for line in expected.lines)
    end = "It stays, and continues to cost money." if keep else "It is removed afterwards."
    hours = "two hours" if LARGE in script.sizes else "an hour"
    return (
        f"This deploys the stack {stack} to AWS ({region}), and touches no other stack. "
        f"{end}\n"
        f"It makes {counted(expected.follows, 'follow')}, publishes "
        f"{counted(expected.posts, 'post')} to {_listed(script.sizes)} followers "
        f"({counted(expected.entries, 'entry', 'entries')}), and disturbs some deliveries. That "
        f"takes about {hours}.\n"
        f"It costs at most ${expected.at_most:,.2f}, by the list prices of us-east-1 of November "
        "2026 without free tiers: twice the expected cost, because a message may come twice.\n"
        f"{lines}"
    )


def _tear_down(own: OwnStack, run: str, report: Report) -> dict[str, Any]:
    """Remove the stack; if that fails, say what remains."""
    say(f"Removing the stack {own.name}.")
    began = time.monotonic()
    try:
        existed = own.remove(run)
    except (KeyboardInterrupt, *EXPECTED) as error:
        reason = "it was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
        failure = f"The removal failed: {reason}"
        report.failures.append(failure)
        say(f"{failure}\nThe stack may remain and cost money: `{own.command}` removes it.")
        return {"stack": f"may remain; `{own.command}` removes it"}
    if not existed:
        return {"stack": "was never made"}
    return {
        "stack": "removed",
        "remove_seconds": round(time.monotonic() - began, 1),
        "what_stays": "CDK's bootstrap stack with the asset in its bucket; CloudWatch's metrics",
    }


def _signals() -> AbstractContextManager[None]:
    """End the run at these signals as at Ctrl-C, so that the stack is removed."""
    return ended_by_signals(first=go_on_unheard)


def go_on_unheard() -> None:
    """Discard further output if the terminal or the reader of the pipe is gone.

    Otherwise the next sentence would fail, and the stack would stay.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # it is not a file
            looked = select.poll()
            looked.register(stream.fileno(), 0)  # reports only that it is broken
            if looked.poll(0):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _reporting(report: Report) -> Iterator[None]:
    """Put whatever stops the run into the report instead of raising it."""
    try:
        yield
    except KeyboardInterrupt:
        report.failures.append(WAS_INTERRUPTED)
        say("Interrupted.")
    except EXPECTED as error:
        reason = f"{error} {error.__cause__ or ''}".rstrip()
        report.failures.append(f"The run stopped: {reason}")
        say(f"FAILED: {reason}")
    except BaseException as error:  # even SystemExit, which a progress bar raises on a broken pipe
        report.failures.append(f"The run stopped because of a bug: {error!r}")
        raise


def report_of(script: Script, expected: Forecast, *, where: str, is_local: bool) -> Report:
    """A new report, with the forecast; on the local engine, a run costs nothing."""
    counts = {name: getattr(expected, name) for name in COUNTS}
    costs = {
        "dynamodb_dollars": expected.dynamodb_dollars,
        "lambda_dollars": expected.lambda_dollars,
        "dollars": expected.dollars,
        "at_most_dollars": expected.at_most,
    }
    return Report(
        {
            "run": {
                "fanfold": version("fanfold"),
                "commit": _commit(),
                "where": where,
                "began": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "sizes": list(script.sizes),
                "readers_with_tokens": len(script.readers),
            },
            "forecast": counts if is_local else counts | costs,
        }
    )


def _commit() -> str:
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(asked, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"


def _save(report: Report, to: Path, name: str) -> None:
    """Write the report; a full disk must not prevent the removal of the stack."""
    try:
        as_json, as_text = report.write(to, name)
    except OSError as error:
        say(f"The report cannot be written to {to}: {error}")
    else:
        say(f"The report is in {as_text} and {as_json.name}; it names no account or address.")


def _exit(report: Report) -> None:
    if WAS_INTERRUPTED in report.failures:
        raise typer.Exit(INTERRUPTED)
    if not report.passed:
        print_result(
            f"aws-verify: failed; {counted(len(report.failures), 'sentence')} in the report"
        )
        raise typer.Exit(1)
    rows = report.sections["rows"]
    print_result(f"aws-verify: passed; {rows['right']:,} of {rows['expected']:,} rows are right")


def run_of(began: str, tag: str) -> str:
    """The name of a run; two may begin in the same second."""
    return f"{began} {tag}"


def _tag() -> str:
    return f"v{secrets.token_hex(3)}"


def _name(what: str) -> str:
    return f"aws-verify-{what}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


def _listed(sizes: Sequence[int]) -> str:
    *first, last = (f"{size:,}" for size in sizes)
    return f"{', '.join(first)} and {last}" if first else last

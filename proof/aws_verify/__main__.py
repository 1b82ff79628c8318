"""`python -m proof.aws_verify STACK`, or `make aws-verify STACK=Fanfold-verify`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fanfold.budgets import MIN_CONCURRENCY
from fanfold_cli import aws
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.options import HomeOption, YesOption
from fanfold_cli.stack import Deployment, aws_region, place_of
from fanfold_cli.terminal import ExpectedError, failing_with, say
from proof.aws_verify import runs, script
from proof.aws_verify.course import PATIENCE_SECONDS
from proof.aws_verify.own_stack import OwnStack, stage_of

# Hidden, so that a report is not a source of the app.
REPORTS = CHECKOUT / ".aws-verify"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def aws_verify(
    stack: Annotated[
        str, typer.Argument(help="Name of the stack to make: Fanfold-verify, or Fanfold-verify-ME.")
    ] = "",
    large: Annotated[
        bool, typer.Option("--large", help=f"Publish to {script.LARGE:,} followers too.")
    ] = False,
    sizes: Annotated[
        list[int] | None,
        typer.Option(
            "--size", min=2, max=script.MOST, help="Followers of a publisher; can be repeated."
        ),
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Use the running local engine instead of AWS.")
    ] = False,
    home: HomeOption = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the stack, which continues to cost money.")
    ] = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Only remove the stack of an earlier run.")
    ] = False,
    to: Annotated[
        Path, typer.Option("--to", file_okay=False, help="Directory for the report.")
    ] = REPORTS,
    hold: Annotated[float, typer.Option(min=1, help="Seconds that each trouble lasts.")] = 60.0,
    patience: Annotated[
        float, typer.Option(min=1, help="Seconds without progress after which it gives up.")
    ] = PATIENCE_SECONDS,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=MIN_CONCURRENCY,
            help=r"Concurrent executions that the stage may take. \[default: as in dev, 10]",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Deploy a separate stage to AWS, publish, disturb it, check all rows, report, and remove it.

    First says what it will do and cost, and asks.
    """
    usual = script.LOCAL_SIZES if local else script.SIZES
    chosen = sorted({*(sizes or usual), *([script.LARGE] if large else [])})
    run = runs.Run(tuple(chosen), to, hold, patience, concurrency, keep, yes)
    if local:
        run.locally(Deployment.local(Home.choose(home)))
        return
    if not stack:
        raise ExpectedError("Name the stack to make: make aws-verify STACK=Fanfold-verify")
    stage_of(stack)
    region = aws_region()
    own = OwnStack(stack, aws.client("cloudformation", None, region))
    with failing_with("The account cannot be read"):
        account = aws.client("sts", None, region).get_caller_identity()["Account"]
    place = place_of(stack, account, region)
    if remove:
        runs.remove(own, place, yes=yes)
    else:
        run.on_aws(own, place, region)


def main() -> None:
    """Run the command; an expected failure is a sentence and exit code 1, not a traceback."""
    try:
        app(prog_name="aws-verify")
    except ExpectedError as error:
        say(str(error))
        sys.exit(1)


if __name__ == "__main__":
    main()

"""What a day on AWS forecasts and writes down, without any service."""

from pathlib import Path

import pytest

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, Budget
from fanfold_cli.cost.publish import Publish
from fanfold_cli.terminal import ExpectedError
from proof.aws_verify import runs, troubles
from proof.aws_verify.forecast import MARGIN, forecast
from proof.aws_verify.own_stack import stage_of
from proof.aws_verify.report import Report, scrubbed
from proof.aws_verify.script import LARGE, Script

AT = "2026-11-22T19:00:00.000Z"


def test_a_stack_of_this_command_is_a_stage_of_its_own_and_no_other_is_touched() -> None:
    for stage in ("verify", "verify-anna"):
        assert stage_of(f"Fanfold-{stage}") == stage
    for name in ("Fanfold-prod", "verify", "Fanfold-verify-", "Fanfold-verify-A", "x"):
        with pytest.raises(ExpectedError, match="is no stack of this command"):
            stage_of(name)


def test_the_forecast_is_that_of_fanfold_cost_and_the_follows() -> None:
    script = Script("v1", (100, 10_000))
    budget = Budget.of(DEFAULT_WRITE_CAPACITY)
    units = {size: Publish.to(size, budget, memory_mb=512).write_units for size in (100, 10_000)}
    expected = forecast(script, troubles=4)
    # Both doors, and both sizes in each trouble; five units a follow.
    assert expected.write_units == 6 * sum(units.values()) + 5 * 10_100
    assert expected.entries == 6 * 10_100
    assert expected.at_most >= MARGIN * expected.dollars > MARGIN * expected.dynamodb_dollars
    # The large publisher is left alone by troubles, if there is another.
    assert Script("v1", (100, 10_000, LARGE)).troubled == [100, 10_000]
    assert Script("v1", (LARGE,)).troubled == [LARGE]


def test_a_run_says_what_it_does_and_the_most_that_it_costs() -> None:
    script = Script("v1", (100, 10_000, LARGE))
    expected = forecast(script, troubles=len(troubles.ON_AWS))
    said = runs.intention("Fanfold-verify", "eu-west-1", script, expected, keep=False)
    assert "the stack Fanfold-verify" in said
    assert "(eu-west-1)" in said
    assert "100, 10,000 and 220,000 followers" in said
    assert f"It costs at most ${expected.at_most:,.2f}" in said
    assert 1 < expected.at_most < 10
    assert "It is removed afterwards." in said
    assert "It stays" in runs.intention("Fanfold-verify", "", script, expected, keep=True)


SECRETS = (
    "123456789012",
    "arn:aws:dynamodb:eu-west-1:123456789012:table/Fanfold",
    "https://abc123.execute-api.eu-west-1.amazonaws.com/v1/posts",
    "eyJraWQiOiJ4In0.eyJzdWIiOiJ4In0.c2lnbmF0dXJl",
    "eu-west-1_Ab12Cd34E",
    "AKIAIOSFODNN7EXAMPLE",
    "anna@example.com",
    "10.0.0.17",
)


def test_a_report_names_no_account_token_or_address(tmp_path: Path) -> None:
    for secret in SECRETS:
        report = Report({"run": {"began": AT, "why": [f"it said ({secret}), twice: {secret}"]}})
        report.failures.append(f"An error of {secret}.")
        report.skip("all", f"because of '{secret}'")
        for path in report.write(tmp_path, "report"):
            text = path.read_text()
            assert secret not in text
            assert AT in text
        assert scrubbed(f"a {secret} b").startswith("a [")

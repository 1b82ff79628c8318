"""What a day on AWS judges, forecasts and writes down, without any service."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from fanfold.budgets import DEFAULT_WRITE_CAPACITY, Budget
from fanfold_cli.cost.publish import Publish
from fanfold_cli.terminal import ExpectedError
from proof.aws_verify import runs, script, troubles
from proof.aws_verify.forecast import MARGIN, forecast
from proof.aws_verify.own_stack import stage_of
from proof.aws_verify.report import Report, scrubbed
from proof.aws_verify.script import Post, Record
from proof.aws_verify.verdict import Row, Verdict, judge
from proof.aws_verify.watch import percentile

AT = "2026-11-22T19:00:00.000Z"
LATER = "2026-11-22T19:00:01.000Z"
POST = Post("one", "v1-ada", AT, "Hello", script.HTTP, frozenset({"v1-bob", "v1-eve"}))
RIGHT = (Row("v1-bob", f"{AT}#one", "v1-ada"), Row("v1-eve", f"{AT}#one", "v1-ada"))


def judged(*rows: Row, prefix: str = "") -> Verdict:
    return judge({"one": POST}, rows, prefix=prefix)


def test_rows_as_published_are_right_and_those_of_others_are_passed_over() -> None:
    verdict = judged(*RIGHT)
    assert (verdict.right, verdict.expected, list(verdict.failures())) == (2, 2, [])
    other = Row("somebody", f"{AT}#else", "ada")
    assert list(judged(*RIGHT, other, prefix="v1-").failures()) == []
    # But on a stage of its own they are counted.
    assert judged(*RIGHT, other).faults == Counter(unknown=1)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (RIGHT[:1], "1 row is missing"),
        ((*RIGHT, Row("v1-mallory", f"{AT}#one", "v1-ada")), "1 row is too many"),
        ((*RIGHT, Row("v1-bob", f"{LATER}#another", "v1-ada")), "1 row is of no known post"),
        ((*RIGHT, Row("v1-bob", f"{LATER}#one", "v1-ada")), "1 row is doubled"),
        ((RIGHT[0], RIGHT[1]._replace(publisher="v1-eve")), "1 row is wrong"),
        ((RIGHT[0], RIGHT[1]._replace(sort_key=f"{LATER}#one")), "1 row is wrong"),
        ((), "2 rows are missing"),
    ],
)
def test_a_spoiled_table_fails_with_a_sentence_and_at_most_five_examples(
    rows: tuple[Row, ...], fault: str
) -> None:
    (failure,) = judged(*rows).failures()
    assert failure.startswith(fault)
    assert "v1-" in failure
    many = replace(POST, followers=frozenset(f"v1-{number}" for number in range(9)))
    (failure,) = judge({"one": many}, (), prefix="").failures()
    assert failure.startswith("9 rows are missing")
    assert failure.count(" one") == 5


def test_a_stack_of_this_command_is_a_stage_of_its_own_and_no_other_is_touched() -> None:
    for stage in ("verify", "verify-anna"):
        assert stage_of(f"Fanfold-{stage}") == stage
    for name in ("Fanfold-prod", "verify", "Fanfold-verify-", "Fanfold-verify-A", "x"):
        with pytest.raises(ExpectedError, match="is no stack of this command"):
            stage_of(name)


def test_the_forecast_is_that_of_fanfold_cost_and_the_follows() -> None:
    record = Record("v1", (100, 10_000))
    budget = Budget.of(DEFAULT_WRITE_CAPACITY)
    units = {size: Publish.to(size, budget, memory_mb=512).write_units for size in (100, 10_000)}
    expected = forecast(record, troubles=4)
    # Both doors, and both sizes in each trouble; five units a follow.
    assert expected.write_units == 6 * sum(units.values()) + 5 * 10_100
    assert expected.entries == 6 * 10_100
    assert expected.at_most >= MARGIN * expected.dollars > MARGIN * expected.dynamodb_dollars
    # The large publisher is left alone by troubles, if there is another.
    assert Record("v1", (100, 10_000, script.LARGE)).troubled == [100, 10_000]
    assert Record("v1", (script.LARGE,)).troubled == [script.LARGE]


def test_a_run_says_what_it_does_and_what_it_costs_at_most() -> None:
    record = Record("v1", (100, 10_000, script.LARGE))
    expected = forecast(record, troubles=len(troubles.ON_AWS))
    said = runs.intention("Fanfold-verify", "eu-west-1", record, expected, keep=False)
    assert "the stack Fanfold-verify" in said
    assert "(eu-west-1)" in said
    assert "100, 10,000 and 220,000 followers" in said
    assert f"It costs at most ${expected.at_most:,.2f}" in said
    assert 1 < expected.at_most < 10
    assert "It is removed afterwards." in said
    assert "It stays" in runs.intention("Fanfold-verify", "", record, expected, keep=True)


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (100, 198, 7)


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


def test_a_report_is_readable_and_says_what_failed_and_what_was_skipped(tmp_path: Path) -> None:
    post = {"followers": 10_000, "door": "HTTP", "p50_seconds": 1.25, "p99_seconds": None}
    rows = {"expected": 20_200, "right": 20_200}
    report = Report({"run": {"sizes": [100, 10_000]}, "posts": [post], "rows": rows})
    report.skip("cost", "the engine counts | nothing")
    _, as_text = report.write(tmp_path, "report")
    text = as_text.read_text()
    assert "**Passed.**" in text
    assert "| followers | door | p50 seconds | p99 seconds |" in text
    assert "| 10,000 | HTTP | 1.25 | - |" in text
    assert "| cost | the engine counts \\| nothing |" in text
    report.failures.append("A row is missing.")
    assert "* A row is missing." in report.write(tmp_path, "report")[1].read_text()


def test_a_run_on_the_engine_forecasts_no_cost() -> None:
    record = Record("v1", (10, 50))
    expected = forecast(record, troubles=2)
    on_aws, locally = (
        runs.report_of(record, expected, where="here", is_local=local).sections["forecast"]
        for local in (False, True)
    )
    assert locally.keys() == {"entries", "follows", "posts", "write_units"}
    dollars = {f"{what}dollars" for what in ("", "dynamodb_", "lambda_", "at_most_")}
    assert on_aws.keys() - locally.keys() == dollars

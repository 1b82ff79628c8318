"""A day on AWS, small and on the local engine."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fanfold import names
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from proof.aws_verify.__main__ import app

pytestmark = pytest.mark.thorough

SIZES = ("--size", "12", "--size", "60")
# A message that fails comes again after so many seconds; as deployed, after six minutes.
VISIBILITY_SECONDS = 5


@pytest.fixture(autouse=True)
def soon_again(stack: Deployment) -> Iterator[None]:
    """Let messages about posts that have failed come again soon."""
    sqs = stack.client("sqs")

    def set_visibility(queue: names.Queue, seconds: int) -> None:
        sqs.set_queue_attributes(
            QueueUrl=stack.output(queue.url_output), Attributes={"VisibilityTimeout": str(seconds)}
        )

    for queue in (names.PUBLISH, *names.LANES):
        set_visibility(queue, VISIBILITY_SECONDS)
    yield
    for queue in (names.PUBLISH, *names.LANES):
        set_visibility(queue, queue.visibility_seconds)


def run(engine: Home, directory: Path, *arguments: str) -> tuple[int, str, Any]:
    where = ("--local", "--yes", "--home", str(engine.path), "--to", str(directory))
    ran = CliRunner().invoke(app, [*where, *SIZES, "--hold", "2", "--patience", "120", *arguments])
    (path,) = directory.glob("aws-verify-local-*.json")
    return ran.exit_code, ran.output, json.loads(path.read_text())


def test_a_small_run_on_the_engine_finds_every_row_and_says_what_it_skipped(
    engine: Home, tmp_path: Path
) -> None:
    exit_code, said, report = run(engine, tmp_path)
    assert (exit_code, report["failures"]) == (0, []), said
    # By both doors to both sizes, then in two troubles to those whom nobody has left.
    entries = 2 * (12 + 60) + 2 * (10 + 58)
    assert report["rows"] == {"expected": entries, "right": entries}
    assert f"passed; {entries} of {entries} rows are right" in said
    assert [(each["followers"], each["door"]) for each in report["posts"]] == [
        (12, "HTTP"),
        (12, "queue"),
        (60, "HTTP"),
        (60, "queue"),
    ]
    for each in [*report["posts"], *report["troubles"]]:
        assert each["state"] == "complete"
        assert each["delivered"] == each["followers"]
        assert 0 < each["p50_seconds"] <= each["p99_seconds"]
    # Nothing came through the lanes while it lasted. But RELATE fills in what a follow may have
    # missed, a minute after those that were sent by queue, so some may have had it.
    for each in report["troubles"]:
        had, sample = map(int, each["of_the_sample_meanwhile"].split(" of "))
        assert had < sample
        assert each["p99_seconds"] > 2
    assert {each["while"] for each in report["troubles"]} == {
        "all deliveries are paused",
        "every run of PLAN and DELIVER crashes at its start",
    }
    # The one before the last has left everybody, and the last one follows nobody.
    assert [each["seen"] for each in report["reads"]] == [8, 8, 8, 0, 0]
    skipped = " ".join(each["what"] for each in report["skipped"])
    assert all(word in skipped for word in ("deploying", "reserved", "50 writes", "CloudWatch"))
    text = next(tmp_path.glob("*.md")).read_text()
    assert "**Passed.**" in text
    assert "127.0.0.1" not in text

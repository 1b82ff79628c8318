"""`fanfold demo`: late work is awaited, and what is not finished is not called lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold import clock as product_clock
from fanfold_cli.app import app
from fanfold_cli.commands import demo
from fanfold_cli.graph import Graph
from fanfold_cli.local import deploy
from tests.integration.cli import Stack, outputs
from tests.integration.system import AT, REGION, VISIBILITY_SECONDS, System

GRAPH = Graph({"ada": frozenset({"reader-1", "reader-2"})})


class Engine:
    """Runs the workers whenever the demo sleeps, except those that are too late."""

    def __init__(self, system: System, works_after: float) -> None:
        self.system, self.works_after = system, works_after

    def sleep(self, seconds: float) -> None:
        # As many polls of half a second would take moto long.
        self.system.clock.advance(20 * seconds)
        if self.system.clock.seconds >= self.works_after:
            for queue in ("Publish", "Express"):
                self.system.pump_once(queue)


@pytest.fixture
def run(system: System) -> demo.Run:
    """A post that PLAN has received and not answered, as after a read timeout."""
    for user in GRAPH.follows:
        system.follow(user)
    system.pump("Relation")
    event = {
        "version": 1,
        "type": "post.published",
        "publisher_id": "ada",
        "ref_id": "post",
        "published_at": AT,
        "body": {"title": "Hello"},
    }
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=json.dumps(event))
    assert len(system.receive("Publish")) == 1
    system.clock.seconds = 0.0
    return demo.Run(Stack(REGION, None, outputs()), GRAPH, {"post": "ada"})


def watch(
    run: demo.Run, system: System, monkeypatch: pytest.MonkeyPatch, *, works_after: float
) -> set[str]:
    monkeypatch.setattr(product_clock, "sleep", Engine(system, works_after).sleep)
    return demo._watch(run)


def test_a_message_that_comes_again_is_awaited_and_the_wait_is_explained(
    run: demo.Run,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert watch(run, system, monkeypatch, works_after=VISIBILITY_SECONDS + 60) == set()
    assert demo._count(run) == (2, set())
    said = " ".join(capsys.readouterr().err.split())
    assert said.count(f"comes again {VISIBILITY_SECONDS} s after") == 1


def test_what_is_not_finished_is_under_way_and_not_lost(
    run: demo.Run,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = watch(run, system, monkeypatch, works_after=1e9)
    assert late == {"post"}
    assert demo._count(run) == (0, set())
    demo._say_what_is_late(late)
    said = capsys.readouterr().err
    assert "1 delivery is still under way, see `fanfold fanout list`" in said
    assert demo._difference(run, "reader-1", [], late) is None
    assert "must hold" in str(demo._difference(run, "reader-1", [], set()))


@pytest.mark.parametrize(("delivered", "code"), [(2, 0), (1, 1)])
def test_json_is_all_that_is_printed_and_the_exit_code_says_whether_it_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, delivered: int, code: int
) -> None:
    found = demo.Result(
        expected=2, delivered=delivered, unexpected=0, late=0, wrong_timelines=0, seconds=1.5
    )
    monkeypatch.setattr(deploy, "bring_up", lambda _home: None)
    monkeypatch.setattr(demo, "_run", lambda *_args, **_options: found)
    ran = CliRunner().invoke(app, ["demo", "--json", "--home", str(tmp_path)])
    assert ran.exit_code == code
    printed = json.loads(ran.stdout)
    assert (printed["delivered"], printed["expected"], printed["is_right"]) == (
        delivered,
        2,
        code == 0,
    )
    assert f"`fanfold local down --home {tmp_path}`" in ran.stderr

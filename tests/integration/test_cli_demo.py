"""`fanfold demo`: late work is awaited, and what is not finished is not called lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold import clock as product_clock
from fanfold_cli.app import app
from fanfold_cli.commands import demo
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local import deploy
from tests.commands import Stack, outputs
from tests.service import AT, REGION, VISIBILITY_SECONDS, System

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


def test_late_work_is_explained_awaited_and_not_called_lost(
    run: demo.Run,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = Engine(system, works_after=1e9)
    monkeypatch.setattr(product_clock, "sleep", engine.sleep)
    late = demo._watch(run)
    assert late == {"post"}
    assert system.clock.seconds > VISIBILITY_SECONDS + 60, "a message may come again"
    assert demo._count(run) == (0, set())
    demo._say_what_is_late(late)
    said = " ".join(capsys.readouterr().err.split())
    assert said.count(f"comes again {VISIBILITY_SECONDS} s after") == 1
    assert "1 delivery is still under way, see `fanfold fanout list`" in said
    assert demo._difference(run, "reader-1", [], late) is None
    assert "must hold" in str(demo._difference(run, "reader-1", [], set()))
    engine.works_after = 0
    assert demo._watch(run) == set()
    assert demo._count(run) == (2, set())


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

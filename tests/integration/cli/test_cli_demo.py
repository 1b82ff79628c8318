"""`fanfold demo`: late work is awaited, and what is not finished is not called lost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner
from urllib3.exceptions import ProtocolError

from fanfold import clock as product_clock
from fanfold.errors import NoPost
from fanfold.fanout.status import status_for
from fanfold_cli.app import app
from fanfold_cli.follows.graph import Graph
from fanfold_cli.local import deploy
from fanfold_cli.progress import progress_bar
from fanfold_cli.run import demo
from fanfold_cli.run.people import People
from fanfold_cli.run.record import Post
from fanfold_cli.run.rows import rows
from fanfold_cli.run.verdict import Verdict, judge
from fanfold_cli.terminal import ExpectedError
from fanfold_client import Refused
from tests.commands import API, Stack, outputs
from tests.service import AT, REGION, VISIBILITY_SECONDS, System

GRAPH = Graph({"ada": frozenset({"reader-1", "reader-2"})})


class Engine:
    """Runs the workers whenever the demo sleeps, except those that are too late."""

    def __init__(self, system: System, works_after: float) -> None:
        self.system, self.works_after = system, works_after

    def sleep(self, seconds: float) -> None:
        # As many short polls would take long.
        self.system.clock.advance(50 * seconds)
        if self.system.clock.seconds >= self.works_after:
            for queue in ("Publish", "Express"):
                self.system.pump_once(queue)


@pytest.fixture
def people(system: System) -> People:
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
    }
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=json.dumps(event))
    assert len(system.receive("Publish")) == 1
    system.clock.seconds = 0.0
    found = People(Stack(REGION, None, outputs()))
    found.record.follow_all(GRAPH.followers, 1, 2)
    found.record.add(Post("post", "ada", AT, 3))

    @dataclass
    class Publisher:
        seconds: float = 60.0

        def delivery(self, ref_id: str) -> dict[str, Any]:
            try:
                return vars(status_for(system.fanouts, ref_id, publisher_id="ada"))
            except NoPost as error:
                raise Refused(str(error)) from error

    found.apis["ada"] = Publisher()  # type: ignore[assignment]
    return found


def judged(people: People) -> Verdict:
    return judge(people.record, rows=rows(people.deployment), ours=None)


def test_late_work_is_explained_awaited_and_not_called_lost(
    people: People,
    system: System,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = Engine(system, works_after=1e9)
    monkeypatch.setattr(product_clock, "sleep", engine.sleep)
    assert demo.await_posts(people, GRAPH) == 1
    assert system.clock.seconds > VISIBILITY_SECONDS + 60, "a message may come again"
    assert judged(people).faults == {"late": 2}
    said = " ".join(capsys.readouterr().err.split())
    assert said.count(f"again after {VISIBILITY_SECONDS} s") == 1
    assert "1 delivery is still under way, see `fanfold fanout list`" in said
    engine.works_after = 0
    assert demo.await_posts(people, GRAPH) == 0
    assert (judged(people).right, judged(people).failures) == (2, [])


@pytest.mark.parametrize(
    ("has_ended", "token", "said"),
    [
        (True, "a-token", "The local engine has ended: start it"),
        (True, Mock(side_effect=OSError), "The local engine has ended: start it"),
        (False, Mock(side_effect=OSError), "The delivery of post cannot be seen: Nothing was sent"),
    ],
)
def test_an_engine_that_ends_or_an_error_that_stays_ends_the_demo_at_once(
    people: People, monkeypatch: pytest.MonkeyPatch, has_ended: bool, token: Any, said: str
) -> None:
    naps: list[float] = []
    monkeypatch.setattr(product_clock, "sleep", naps.append)
    monkeypatch.setattr(demo, "DELIVERY_SECONDS", -1)
    monkeypatch.setattr(Stack, "has_ended", lambda _: has_ended)
    monkeypatch.setattr(Stack, "api_url", API)
    people._pool = Mock(**{"request.side_effect": ProtocolError})
    people.seconds = 2
    people.sign_in("ada", token)
    with pytest.raises(ExpectedError, match=said):
        demo.await_posts(people, GRAPH)
    assert naps == []


def test_an_engine_that_hangs_is_asked_for_some_seconds_at_a_time(
    people: People, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hang(*_: Any, **__: Any) -> Any:
        system.clock.advance(demo.ASK_SECONDS)
        raise ProtocolError("timed out")

    monkeypatch.setattr(demo, "DELIVERY_SECONDS", 20)
    monkeypatch.setattr(Stack, "api_url", API)
    people._pool = Mock(**{"request.side_effect": hang})
    ada = people.sign_in("ada", "a-token")
    # The publisher of a post by the queue signs in when it is first asked for.
    people.record.add(Post("queued", "zoe", AT, 3))
    monkeypatch.setattr("fanfold_cli.run.people.Token", lambda *_: "a-token")
    assert demo.await_posts(people, Graph({**GRAPH.followers, "zoe": frozenset()})) == 2
    assert people._pool.request.call_count >= 3
    assert people.repeated == 0, "an ask was repeated for a minute"
    assert (people.apis, people.seconds) == ({"ada": ada}, 60.0)


def test_the_bar_of_the_count_expects_the_rows_that_a_local_engine_has(
    people: People, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    bar = Mock(wraps=progress_bar)
    monkeypatch.setattr("fanfold_cli.run.rows.progress_bar", bar)
    monkeypatch.setattr(Stack, "is_local", True)
    system.pump("Publish", "Express")
    assert len(list(rows(people.deployment))) == bar.call_args.kwargs["total"] == 2


@pytest.mark.parametrize(("delivered", "code"), [(2, 0), (1, 1)])
def test_json_is_all_that_is_printed_and_the_exit_code_says_whether_it_is_right(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, delivered: int, code: int
) -> None:
    found = {"delivered": delivered, "expected": 2, "seconds": 1.5, "is_right": code == 0}
    monkeypatch.setattr(deploy, "bring_up", lambda _home: None)
    monkeypatch.setattr(demo, "_run", lambda *_args, **_options: found)
    ran = CliRunner().invoke(app, ["demo", "--json", "--home", str(tmp_path)])
    assert ran.exit_code == code
    assert json.loads(ran.stdout) == found
    assert f"`fanfold local down --home {tmp_path}`" in ran.stderr

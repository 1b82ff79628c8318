"""`fanfold demo --hurt` and its page: everything is hurt, and every row is counted."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold_cli.console import server
from fanfold_cli.console.operating import Operator
from fanfold_cli.console.views import GOOD, HURT, INFO, Event, Headline
from fanfold_cli.console.watching import first_state
from fanfold_cli.health.verdict import Depth
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.stack import Deployment
from proof.hurt.building import home_beside
from tests.e2e.clients import User, eventually
from tests.unit.cli.console.test_console_operating import Shell

CHROME = "FANFOLD_CHROME"
PICTURES = "FANFOLD_PICTURES"
# Much longer than it takes on a busy machine.
PATIENCE_SECONDS = 1_200
# Two segments in the bulk lane, and few others: short enough for a busy machine.
SIZE = ("--followers", "5500", "--seconds", "10")


@contextmanager
def started(words: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A command of `fanfold`, as its user runs it; whatever happens, it ends."""
    with log.open("w") as said:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "fanfold_cli", *words],
            cwd=CHECKOUT,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
            stdout=said if words[0] == "console" else subprocess.PIPE,
            stderr=said,
            text=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_SECONDS)


@contextmanager
def hurt(home: Home, log: Path) -> Iterator[subprocess.Popen[str]]:
    """The demo, whose engine ends with it."""
    words = ("demo", "--hurt", "--home", str(home.path), "--no-browser", "--json", *SIZE)
    with started(words, log) as process:
        yield process
    assert home_beside(home).running() is None


def address_in(log: Path, process: subprocess.Popen[str]) -> str:
    while process.poll() is None:
        for word in log.read_text().split():
            if word.startswith("http://127.0.0.1:") and "/#key=" in word:
                return word
        try:
            process.wait(0.2)
        except subprocess.TimeoutExpired:
            continue
    raise AssertionError(log.read_text())


def verdict_of(process: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    printed, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, log.read_text()
    found: dict[str, Any] = json.loads(printed)
    assert found["expected"] == found["delivered"] > 0
    assert (found["lost"], found["twice"], found["unexpected"]) == (0, 0, 0)
    return found


def call(address: str, path: str, content: Any = None) -> Any:
    """Call the bridge as its page does."""
    origin, _, key = address.partition("/#key=")
    headers = {"x-fanfold-key": key, "content-type": "application/json"}
    body = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{origin}{path}", body, headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        return json.loads(answer.read())


@pytest.mark.thorough
def test_the_console_of_a_stack_shows_a_post_and_runs_what_is_confirmed(
    engine: Home, make: Callable[[str], User], tmp_path: Path
) -> None:
    alice, bob = make("alice"), make("bob")
    bob.follow(alice)
    log = tmp_path / "log"
    words = ("console", "--home", str(engine.path), "--no-browser", "--reader", bob.name)
    with started(words, log) as process:
        address = address_in(log, process)
        eventually(lambda: not call(address, "/state")["failure"])
        ref_id = alice.publish(body={"title": "Hello"})["ref_id"]

        def is_shown() -> bool:
            state = call(address, "/state")
            seen = [entry["ref_id"] for entry in state["readers"][0]["entries"]]
            ring = state["ring"]
            return seen == [ref_id] and bool(ring) and ring["state"] == "complete"

        eventually(is_shown)
        state = call(address, "/state")
        assert (state["ring"]["ref_id"], state["ring"]["delivered"]) == (ref_id, 1)
        assert state["headline"]["mood"] == "good"
        assert bob.token not in json.dumps(state)

        show = {"command": "fanout show", "id": ref_id}
        asked = call(address, "/act", show)
        assert asked["command"] == f"fanfold fanout show --home {engine.path} -- {ref_id}"
        done = call(address, "/act", {"run": asked["question"]})
        assert (done["succeeded"], done["result"]["delivered"]) == (True, 1)
        unknown = {"command": "fanout resend", "id": "no-such-post"}
        question = call(address, "/act", unknown)["question"]
        failed = call(address, "/act", {"run": question})
        assert not failed["succeeded"]
        assert "The ledger knows no fan-out" in failed["said"]


@pytest.mark.thorough
def test_a_console_that_is_ended_leaves_no_command_running(engine: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    with (
        ThreadPoolExecutor(1) as threads,
        started(("console", "--home", str(engine.path), "--no-browser"), log) as process,
    ):
        address = address_in(log, process)
        question = call(address, "/act", {"command": "dlq redrive"})["question"]
        answer = threads.submit(call, address, "/act", {"run": question})
        eventually(lambda: bool(children_of(process.pid)))
        (command,) = children_of(process.pid)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 130
        with pytest.raises(ProcessLookupError):
            os.kill(command, 0)
        answer.exception()  # the page may have been told, or found the bridge gone
    assert "Ended with the console: fanfold dlq redrive" in log.read_text()


def children_of(parent: int) -> list[int]:
    words = ["ps", "-A", "-o", "ppid=,pid="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    numbers = list(map(int, listed))
    pairs = zip(numbers[::2], numbers[1::2], strict=True)
    return [pid for ppid, pid in pairs if ppid == parent]


@pytest.mark.slow
def test_the_script_plays_by_itself_and_every_row_is_right(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with hurt(Home(tmp_path / "home"), log) as process:
        found = verdict_of(process, log)
    assert " 2 workers killed, " in found["sentence"]
    assert ", 0 batches refused" not in found["sentence"]
    assert ", 0 copies" not in found["sentence"]
    assert found["sentence"].endswith(" 0 lost, 0 seen twice")


@pytest.mark.slow
def test_a_demo_that_is_ended_leaves_nothing_running(tmp_path: Path) -> None:
    log, home = tmp_path / "log", Home(tmp_path / "home")
    with hurt(home, log) as process:
        address = address_in(log, process)
        for wrong in ({}, {"what": "fly"}, {"what": ["kill"]}, {"what": "throttle", "on": "yes"}):
            with pytest.raises(urllib.error.HTTPError, match="400"):
                call(address, "/act", wrong)
        assert call(address, "/state")["hurting"]["is_scripted"]  # nobody has done anything
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 130
    assert "Interrupted" in log.read_text()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(address, timeout=5)


Play = Callable[[str, str], set[str]]

DRIVER = CHECKOUT / "clients" / "typescript" / "node_modules" / "puppeteer-core"
HAS_BROWSER = pytest.mark.skipif(
    not DRIVER.exists()
    or ((sys.platform, platform.machine()) != ("linux", "x86_64") and CHROME not in os.environ),
    reason=f"no browser: `make setup` has one for Linux on x64, elsewhere name one in {CHROME}",
)


PROD = Deployment(
    "eu-central-1", None, {}, stack="Fanfold-prod", account="123456789012", is_protected=True
)


@pytest.fixture
def play(tmp_path: Path, browser_folder: str) -> Play:
    """Play a scene of console_page.mjs in a browser; the names of its pictures."""

    def run(scene: str, address: str) -> set[str]:
        pictures = Path(os.environ.get(PICTURES, tmp_path / "pictures"))
        pictures.mkdir(parents=True, exist_ok=True)
        environment = {PICTURES: str(pictures), "TMPDIR": browser_folder}
        done = subprocess.run(
            ["node", str(Path(__file__).with_name("console_page.mjs"))],
            env={**os.environ, **environment, "FANFOLD_ADDRESS": address, "FANFOLD_SCENE": scene},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        return {path.name.partition("-")[0] for path in pictures.glob("*-360-dark.png")}

    return run


@pytest.mark.thorough
@HAS_BROWSER
def test_an_operator_needs_no_mouse_and_confirms_each_command(
    engine: Home, tmp_path: Path, play: Play
) -> None:
    log = tmp_path / "log"
    with started(("console", "--home", str(engine.path), "--no-browser"), log) as process:
        assert play("operate", address_in(log, process)) >= {"console", "confirm"}


@pytest.mark.thorough
@HAS_BROWSER
def test_two_buttons_at_once_open_one_question_and_run_one_command(
    tmp_path: Path, play: Play
) -> None:
    shell = Shell(tmp_path / "ran")
    operator = Operator(PROD.place, ("--stack", "Fanfold-prod"), True, shell.program)
    state = first_state(PROD, may_operate=True)
    with server.serving(server.Doors(state.content, operator.act)) as bridge:
        play("questions", bridge.address)
    show = ["fanout", "show", "--stack", "Fanfold-prod", "--json", "--", "a-post"]
    assert shell.ran == [show, show, ["fanout", "list", "--stack", "Fanfold-prod", "--json"], show]


@pytest.mark.thorough
@HAS_BROWSER
def test_a_page_whose_next_state_does_not_come_says_how_old_it_is(play: Play) -> None:
    first, ended = threading.Event(), threading.Event()
    done = replace(
        first_state(PROD, may_operate=False),
        queues={"bulk": Depth()},
        # The ledger's time of the second is before the first's.
        events=(Event(1, 17.0, HURT, "Killed."), Event(2, 3.0, INFO, "Accepted.")),
        headline=Headline(GOOD, "10,000 followers have it", "Nothing is owed to anybody."),
    )

    def state() -> server.Content:
        if first.is_set():
            ended.wait()  # a stack that is busy with something else
        first.set()
        return done.content()

    with server.serving(server.Doors(state, dict)) as bridge:
        try:
            play("old", bridge.address)
        finally:
            ended.set()


@pytest.mark.thorough
@HAS_BROWSER
def test_a_page_keeps_its_key_and_adds_nothing_with_each_refresh(play: Play) -> None:
    state = replace(first_state(PROD, may_operate=False), every_seconds=0.05)
    with server.serving(server.Doors(state.content, dict)) as bridge:
        play("refreshes", bridge.address)


@pytest.mark.slow
@HAS_BROWSER
def test_a_person_at_the_page_hurts_it_and_sees_it_heal(tmp_path: Path, play: Play) -> None:
    log = tmp_path / "log"
    with hurt(Home(tmp_path / "home"), log) as process:
        taken = play("hurt", address_in(log, process))
        verdict_of(process, log)
    assert taken >= {"delivering", "delivered", "killed", "throttled", "twice", "counted"}

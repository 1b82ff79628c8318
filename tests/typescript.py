"""Users who act through the TypeScript client, which a Node process runs for all of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from fanfold import clock
from fanfold_client import Refused

CLIENT = Path(__file__).parents[1] / "clients" / "typescript"
SCRIPT = Path(__file__).with_suffix(".mjs")
# Much longer than it takes on a busy machine.
PATIENCE_SECONDS = 300


def run(*command: str, cwd: Path = CLIENT, environment: Mapping[str, str] | None = None) -> str:
    """Run a command, and return what it printed; fails with that."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


def copied(folder: Path) -> Path:
    """A copy of the client, so that nothing else builds where tests do."""
    copy = folder / "typescript"
    made = shutil.ignore_patterns("node_modules", "dist", ".build")
    shutil.copytree(CLIENT, copy, ignore=made)
    (copy / "node_modules").symlink_to(CLIENT / "node_modules")
    return copy


class Node:
    """A process that obeys commands; threads share it.

    If it is killed, another one begins, in which all timelines begin anew. Commands without an
    answer are given to it again, as an app does that keeps its users' actions until they are
    answered.
    """

    def __init__(self, client: Path, url: str) -> None:
        self.command = ["node", str(SCRIPT), str(client), url]
        self.numbers, self.lock = count(), threading.Lock()
        self.waiting: dict[int, tuple[str, Future[Any]]] = {}  # by number: command and answer
        self.is_killed, self.kills = False, 0
        self._begin()
        self.listener = threading.Thread(target=self._listen, daemon=True)
        self.listener.start()

    def ask(self, act: str, user: str, token: str, *given: Any) -> Any:
        """What the client's method of this name answers; raises `Refused` for each `Problem`."""
        number, answer = next(self.numbers), Future[Any]()
        command = {"id": number, "act": act, "user": user, "token": token, "given": given}
        with self.lock:
            self.waiting[number] = json.dumps(command), answer
            self._write(self.waiting[number][0])
        told = answer.result(PATIENCE_SECONDS)
        if problem := told.get("problem"):
            refused = Refused(f"{user}, {act}: {problem}")
            refused.status, refused.type = problem["status"], problem["kind"]
            refused.may_pass = problem["passes"]
            raise refused
        return told["answer"]

    def kill(self) -> None:
        with self.lock:
            self.is_killed = True
            self.kills += 1
            self.process.kill()

    def close(self) -> None:
        self.process.kill()
        self.listener.join()

    def _begin(self) -> None:
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def _write(self, command: str) -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):  # the next process is given it again
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()

    def _listen(self) -> None:
        while True:
            assert self.process.stdout
            for line in self.process.stdout:
                with suppress(ValueError):  # cut off by a kill
                    told = json.loads(line)
                    self.waiting.pop(told["id"])[1].set_result(told)
            with self.lock:
                self.process.communicate()  # it has ended; this closes the pipes
                if not self.is_killed:
                    for _, answer in self.waiting.values():
                        answer.set_exception(RuntimeError("Node has ended by itself."))
                    return
                self.is_killed = False
                self._begin()
                for command, _ in self.waiting.values():
                    self._write(command)


@dataclass
class TypeScriptUser:
    """What the tests call of `Fanfold`, carried out by the TypeScript client."""

    node: Node
    name: str
    token: str

    def __getattr__(self, act: str) -> Callable[..., Any]:
        """A method that has the same name and parameters in both clients."""
        return partial(self.node.ask, act, self.name, self.token)

    def publish(self, body: Any = None, *, key: str = "") -> Any:
        # An app keeps the key until the post is answered.
        return self.node.ask("publish", self.name, self.token, body, {"key": key or clock.new_id()})

    def move_marker(self, published_at: str, ref_id: str) -> Any:
        entry = {"published_at": published_at, "ref_id": ref_id}
        return self.node.ask("moveMarker", self.name, self.token, entry)

    @property
    def timeline(self) -> TypeScriptUser:
        return self

    def page(
        self, *, limit: int, before: str | None = None, after: str | None = None, hydrate: bool
    ) -> Any:
        """The next page of a timeline of the client, for which both cursors are a name.

        It also says what the timeline then holds (`held`), whether it has begun anew (`is_first`),
        and whether there was no other page (`is_end`).
        """
        way, name = "newer" if after else "older", before or after or clock.new_id()
        reading = {"limit": limit, "hydrate": hydrate}
        return self.node.ask(way, self.name, self.token, name, reading)

"""What an operator may do from the page: run commands of `fanfold`.

Each runs as a process with `--json`, so rules, output and sentences are those of the command line.
The page shows the command before it runs. The bridge keeps what was shown: a confirmation names the
number of the question, not a command.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fanfold.ids import is_id
from fanfold_cli.console.server import Content, Forbidden, WrongRequest
from fanfold_cli.dlq.letters import QUEUES
from fanfold_cli.terminal import ExpectedError, say

# Long enough to redrive many letters; then the command is ended.
TIMEOUT_SECONDS: Final = 900.0
# Time for an ended command to report and to cancel its tasks in AWS; then it is killed.
END_SECONDS: Final = 15.0
# The encoding of commands' output, whatever the terminal uses.
ENCODING: Final = "utf-8"
PROGRAM: Final = (sys.executable, "-P", "-m", "fanfold_cli")
MAX_SAID: Final = 4_000
MESSAGE_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{0,99}", re.ASCII)


def _is_level(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 2


@dataclass(frozen=True)
class ConsoleCommand:
    """Words of `fanfold`, checks of its options' values, and the check of an id at the end."""

    words: tuple[str, ...]
    note: str  # what it does or costs, before it is confirmed
    changes: bool = False
    options: Mapping[str, Callable[[str], object]] = field(default_factory=dict)
    takes: Callable[[str], object] | None = None


_QUEUE: Final = {"queue": QUEUES.__contains__}
COMMANDS: Final = {
    " ".join(each.words): each
    for each in (
        ConsoleCommand(("fanout", "list"), "It reads the ledger's two indices."),
        ConsoleCommand(("fanout", "show"), "It reads one row.", takes=is_id),
        ConsoleCommand(
            ("fanout", "resend"),
            "It sends what is pending again. Duplicates do no harm.",
            changes=True,
            takes=is_id,
        ),
        ConsoleCommand(
            ("fanout", "abandon", "--yes"),
            "Followers who do not have the post yet will not get it. Nothing reopens this.",
            changes=True,
            takes=is_id,
        ),
        ConsoleCommand(
            ("dlq", "list"),
            "Letters stay; SQS counts one more receive for each of them.",
            options=_QUEUE,
        ),
        ConsoleCommand(
            ("dlq", "show"),
            "The letter stays; SQS counts one more receive for each that is read.",
            takes=MESSAGE_ID.fullmatch,
        ),
        ConsoleCommand(
            ("dlq", "redrive"),
            "It moves letters back to their queue. Remove the cause first: what fails again "
            "comes back here.",
            changes=True,
            options=_QUEUE,
            takes=MESSAGE_ID.fullmatch,
        ),
        ConsoleCommand(
            ("dlq", "drop", "--yes"),
            "It saves the letter to a file in the directory of this command, then deletes it. "
            "`fanfold dlq restore` sends it back from there.",
            changes=True,
            takes=MESSAGE_ID.fullmatch,
        ),
        ConsoleCommand(
            ("shards", "show", "--estimate"),
            "It reads one page of each write shard of the publisher.",
            takes=is_id,
        ),
        ConsoleCommand(
            ("shards", "grow", "--yes"),
            "Each delivery of this publisher then reads more shards. A level is never lowered.",
            changes=True,
            options={"level": _is_level},
            takes=is_id,
        ),
        ConsoleCommand(
            ("doctor",),
            "It scans the follows and the edges of all publishers: minutes, and about $0.30, per "
            "million follows.",
            options={"publisher": is_id},
        ),
        ConsoleCommand(
            ("doctor", "--repair"),
            "It scans follows and edges, and makes edges and marks agree with the follows. It "
            "first saves what it removes to a file in this command's directory; `fanfold doctor "
            "--put-back FILE` restores it.",
            changes=True,
            options={"publisher": is_id},
        ),
    )
}


@dataclass
class Operator:
    """Runs commands on the stack that `target` names, such as `--stack Fanfold-prod`.

    Each question begins with the `place`, as on the command line. One question is open at a time:
    a new one replaces it, and each can be answered once. Commands end with the console.
    """

    place: str
    target: tuple[str, ...]
    may_change: bool
    program: Sequence[str] = PROGRAM
    _asked: int = 0  # how many questions; the number of the last one
    _open: list[str] | None = None  # the words of the last question, until it is answered
    _running: list[subprocess.Popen[str]] = field(default_factory=list)
    _has_ended: bool = False
    _lock: threading.Condition = field(default_factory=threading.Condition)

    def words(self, content: Content) -> tuple[ConsoleCommand, list[str]]:
        """The command that the page asks for, checked; raises `WrongRequest` and `Forbidden`."""
        command = COMMANDS.get(str(content.get("command")))
        if command is None:
            raise WrongRequest("There is no such command here.")
        if command.changes and not self.may_change:
            raise Forbidden(
                "This console only reads. `fanfold console --operate` lets the page change things."
            )
        words, given = [*command.words], content.get("options") or {}
        checks = command.options
        if not isinstance(given, dict) or not given.keys() <= checks.keys():
            raise WrongRequest("The command takes no such option.")
        for name, value in given.items():
            words.append(f"--{name}={_checked(value, checks[name])}")
        needed = {"level", "publisher"} & checks.keys()
        if not needed <= given.keys():
            raise WrongRequest(f"The command needs --{', --'.join(sorted(needed))}.")
        words += self.target
        last = content.get("id")
        if last is not None:
            if command.takes is None:
                raise WrongRequest("The command takes no id.")
            # Behind --, because an id may begin with a dash.
            words += ["--", _checked(last, command.takes)]
        elif command.takes is not None and not command.options:
            raise WrongRequest("The command needs an id.")
        return command, words

    def act(self, content: Content) -> Content:
        """Open a question about a command, or run the command of a confirmed one."""
        if "run" in content:
            words = self._answered(content["run"])
            return {"command": _shown(words), **self._run(words)}
        command, words = self.words(content)
        with self._lock:
            self._asked += 1
            self._open, number = words, self._asked
        return {
            "question": number,
            "place": self.place,
            "command": _shown(words),
            "note": command.note,
            "changes": command.changes,
        }

    def _answered(self, number: Any) -> list[str]:
        """Close the question and return its words; raises `ExpectedError` if it is not open."""
        with self._lock:
            words = self._open if number == self._asked else None
            if words is None:
                raise ExpectedError(
                    "Nothing was run: this question was answered already, or a later one has "
                    "replaced it. Press the button again."
                )
            self._open = None
        return words

    def _run(self, words: Sequence[str]) -> Content:
        """Run the command until it, the console or its time ends."""
        process = self._start(words)
        sentence = ""
        try:
            printed, said = process.communicate(timeout=TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            sentence = f"Ended after {TIMEOUT_SECONDS:,.0f} s: run it in a terminal. "
            printed, said = _ended(process)
        if process.returncode == -signal.SIGKILL:
            said += "It did not end and was killed: what it has begun in AWS may go on."
        if self._has_ended:
            say(f"Ended with the console: {_shown(words)}\n{said.strip()}")
        with self._lock:
            self._running.remove(process)
            self._lock.notify_all()
        return {
            "succeeded": process.returncode == 0,
            "result": _json(printed),
            "said": sentence + said.strip()[-MAX_SAID:],
        }

    def _start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        place = words.index("--") if "--" in words else len(words)
        # The same modules as in this process, whatever its working directory.
        path = os.pathsep.join(filter(None, sys.path))
        with self._lock:
            if self._has_ended:
                raise ExpectedError("Nothing was run: the console has ended.")
            process = subprocess.Popen(
                [*self.program, *words[:place], "--json", *words[place:]],
                env={**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": ENCODING},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding=ENCODING,
                # Ctrl-C in the terminal reaches only the console, which passes it on once.
                start_new_session=True,
            )
            self._running.append(process)
        return process

    def close(self) -> None:
        """End running commands as Ctrl-C does, and start no more."""
        with self._lock:
            self._has_ended = True
            for process in self._running:
                process.send_signal(signal.SIGINT)
            try:
                self._lock.wait_for(lambda: not self._running, END_SECONDS)
            finally:
                for process in self._running:
                    process.kill()
            self._lock.wait_for(lambda: not self._running, END_SECONDS)


def _ended(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End a command as Ctrl-C does, or kill it; return its stdout and stderr."""
    process.send_signal(signal.SIGINT)
    try:
        return process.communicate(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()


def _shown(words: Sequence[str]) -> str:
    return shlex.join(["fanfold", *words])


def _checked(value: Any, is_right: Callable[[str], object]) -> str:
    if not isinstance(value, str) or not is_right(value):
        raise WrongRequest(f"{value!r:.200} is not a value that this command takes.")
    return value


def _json(printed: str) -> Any:
    try:
        return json.loads(printed)
    except ValueError:
        return None

"""The workers of `fanfold demo --hurt`: processes that can be killed one by one."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names
from fanfold_cli.console.views import HEAL, HURT, Worker
from fanfold_cli.terminal import ExpectedError
from proof.simulation.worker_processes import COPY

BULK, EXPRESS = (names.BULK.lane,), (names.EXPRESS.lane, names.PUBLISH.lane)
# Four workers of the bulk lane, and as many twins while everything is delivered twice.
TEAM, TWINS = (BULK,) * 4 + (EXPRESS,) * 2, (BULK,) * 4
# A killed worker's message is visible again after this time; as deployed, after six minutes.
SHOWN_AFTER = 6
READY_SECONDS = 60.0
# Before a worker that ended by itself is replaced; the next one may end, too.
RESTART_SECONDS = 1.0
END_SECONDS = 5.0

Tell = Callable[[str, str], None]  # kind and sentence


@dataclass
class _Slot:
    """A place in the pool, and its current process."""

    number: int
    lanes: Sequence[str]
    is_twin: bool
    process: subprocess.Popen[str]
    state: str = "starting"
    message: Mapping[str, Any] | None = None
    since: float = 0.0

    @property
    def command(self) -> Mapping[str, Any]:
        """The command that it processes; empty if it has none, or an event."""
        return json.loads(self.message["body"]) if self.message else {}

    @property
    def is_in_segment(self) -> bool:
        return self.state == "busy" and "segment" in self.command


class Pool:
    """Starts workers, replaces killed ones, and can send messages twice."""

    def __init__(self, environment: Mapping[str, str], sqs: Any, log: Path, tell: Tell) -> None:
        self._environment, self._sqs, self._tell = environment, sqs, tell
        self._log = log.open("wb")
        self._lock, self._is_closed = threading.RLock(), False
        self._slots: list[_Slot] = []
        self.publishers: Callable[[str], str] = lambda _: ""  # of a post
        self.twice, self._copied = False, set[tuple[Any, ...]]()
        self.killed = self.copies = 0
        for lanes in TEAM:
            self._add(lanes, is_twin=False)

    def wait_until_ready(self) -> None:
        """Wait for the workers; raises `ExpectedError` that names the log if they do not start."""
        end = clock.monotonic() + READY_SECONDS
        while not all(slot.state in ("idle", "busy") for slot in self._slots):
            if clock.monotonic() > end:
                raise ExpectedError(f"The workers do not start; their log is {self._log.name}.")
            clock.sleep(0.1)

    def set_twice(self, on: bool) -> None:
        """Send each message again when it is first received; twins process the copies."""
        with self._lock:
            self.twice = on
            if on and not any(slot.is_twin for slot in self._slots):
                for lanes in TWINS:
                    self._add(lanes, is_twin=True)

    def kill(self, ref_id: str = "") -> None:
        """Kill a worker in mid-segment, of this post if possible; raises `ExpectedError`.

        It counts only if the worker had not yet deleted its message.
        """
        with self._lock:
            working = [slot for slot in self._slots if slot.is_in_segment]
            ours = [slot for slot in working if slot.command["fanout_id"] == ref_id]
            slot = min(ours or working, key=lambda each: each.since, default=None)
            if slot is None:
                raise ExpectedError(
                    "Nothing was killed: no worker has a segment in hand. Publish, then kill while "
                    "the ring fills."
                )
            message, command = slot.message, slot.command
            assert message is not None
            slot.process.kill()
            slot.state, slot.since = "killed", clock.monotonic()
        # As with a dead Lambda, only the visibility timeout brings the message back.
        try:
            with suppress(BotoCoreError):  # then the message waits longer
                self._sqs.change_message_visibility(
                    QueueUrl=message["url"],
                    ReceiptHandle=message["handle"],
                    VisibilityTimeout=SHOWN_AFTER,
                )
        except ClientError as error:  # its message is deleted already
            raise ExpectedError("The worker had just finished: kill another.") from error
        with self._lock:
            self.killed += 1
        self._tell(
            HURT,
            f"Worker {slot.number} was killed at {self._named(command)}. Its message comes back "
            f"within {SHOWN_AFTER} s.",
        )

    def views(self) -> tuple[Worker, ...]:
        with self._lock:
            return tuple(map(self._view, self._slots))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        for slot in self._slots:
            slot.process.kill()
            slot.process.wait(END_SECONDS)
        self._log.close()

    def _add(self, lanes: Sequence[str], *, is_twin: bool) -> None:
        slot = _Slot(len(self._slots) + 1, lanes, is_twin, self._start(lanes))
        self._slots.append(slot)
        threading.Thread(target=self._follow, args=(slot,), daemon=True).start()

    def _start(self, lanes: Sequence[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "proof.hurt.worker", *lanes],
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )

    def _follow(self, slot: _Slot) -> None:
        """Read the worker's output, and start another whenever it ends."""
        while True:
            assert slot.process.stdout is not None
            with slot.process.stdout as told:
                for line in told:
                    # The last line of a killed worker may be incomplete, and a busy engine may
                    # refuse a copy.
                    with suppress(ValueError, ClientError, BotoCoreError):
                        self._heard(slot, json.loads(line))
            slot.process.wait()
            if slot.state != "killed":
                clock.sleep(RESTART_SECONDS)
            with self._lock:
                if self._is_closed:
                    return
                if slot.state != "killed":
                    self._tell(HURT, f"Worker {slot.number} ended by itself; see {self._log.name}.")
                slot.state = "killed"
                slot.process = self._start(slot.lanes)

    def _heard(self, slot: _Slot, said: Mapping[str, Any]) -> None:
        with self._lock:
            if slot.state == "killed" and "ready" not in said:
                return
            slot.since = clock.monotonic()
            if "handle" in said:
                slot.state, slot.message = "busy", said
            else:
                slot.state, slot.message = "idle", None
        if "handle" in said and self.twice:
            self._copy(said)
        elif "handle" in said and not said["is_first"] and slot.is_in_segment:
            self._tell(HEAL, f"Worker {slot.number} takes {self._named(slot.command)}.")
        elif said.get("succeeded") is False:
            self._tell(HURT, f"Worker {slot.number} failed; its message comes again.")

    def _copy(self, message: Mapping[str, Any]) -> None:
        """Send a message again, unless it is a copy, or a hand-back of one that had a copy."""
        about = json.loads(message["body"])
        what = tuple(about.get(name) for name in ("type", "fanout_id", "ref_id", "segment"))
        with self._lock:
            if not message["is_first"] or what in self._copied:
                return
            self._copied.add(what)
            self.copies += 1
        self._sqs.send_message(
            QueueUrl=message["url"],
            MessageBody=message["body"],
            MessageAttributes=COPY,
            MessageGroupId=message["group"] or "copies",
        )

    def _named(self, command: Mapping[str, Any]) -> str:
        by = self.publishers(command.get("fanout_id", ""))
        if "segment" not in command:
            return f"the plan of {by}"
        return f"segment {command['segment'] + 1} of {command['segments']} of {by}"

    def _view(self, slot: _Slot) -> Worker:
        command = slot.command if slot.state == "busy" else {}
        ref_id = command.get("fanout_id", "")
        return Worker(
            number=slot.number,
            state="idle" if slot.state == "starting" else slot.state,
            ref_id=ref_id,
            publisher_id=self.publishers(ref_id) or str(command.get("publisher_id", "")),
            segment=command.get("segment", 0),
            segments=command.get("segments", 0),
            is_twin=slot.is_twin,
        )

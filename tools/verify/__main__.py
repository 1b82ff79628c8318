"""`make verify`: run every stage that has not passed with the current files.

A stage that fails names its log, and the others still run. After Ctrl-C, the next run continues.
When every stage has passed on a commit, `docs/verified.json` and the badge are written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from tools.verify import badge, results
from tools.verify.results import BADGE, RECORD, Kept, Result
from tools.verify.stages import LIMIT_SECONDS, SEEDS, STAGES, Stage, named

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = 130  # the exit status of a command that Ctrl-C ended
# After a stop: the time for a stage to end by itself, and for its keeper to end the rest.
GRACE_SECONDS = 20.0
KEEPER_SECONDS = 20.0
# Two use two cores; each may take three gigabytes.
LANES = 2
POLL_SECONDS = 0.1
CLEAR_LINE = "\x1b[K"  # from the cursor to the end of the line
# The table names at most this many failures of a stage.
NAMED = 3
# Lines about failures in a log, by pytest and the simulation.
FAILURE = re.compile(r"^(?:(?:FAILED|ERROR) (?P<test>\S+)|(?P<seed>seed \d+: .*))", re.MULTILINE)


@dataclass
class _Run:
    """A running stage, in its own session.

    On Linux, no process outlives it, not even a local engine, which has its own session. Elsewhere,
    such an engine ends after its lifetime.
    """

    stage: Stage
    key: str
    worlds: range  # that it draws
    workshop: Path
    log: Path
    process: subprocess.Popen[bytes]
    began: float

    @classmethod
    def begin(cls, stage: Stage, kept: Kept, *, key: str, worlds: range) -> _Run:
        workshop = kept.workshop(stage, key)
        workshop.mkdir(parents=True, exist_ok=True)
        given = {"seeds": len(worlds), "start": worlds.start, "folder": workshop}
        command = [word.format(**given) for word in stage.command]
        with kept.log(stage).open("w") as log:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "tools.verify.keeper", *command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return cls(stage, key, worlds, workshop, kept.log(stage), process, time.monotonic())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    def result(self, limit: float) -> Result | None:
        """Its result, or None while it runs; ends it after `limit` seconds."""
        said = ""
        cpu_seconds = self._reap()
        if cpu_seconds is None:
            if self.seconds < limit:
                return None
            said = f"It did not end by itself within {limit / 60:.0f} minutes, so it was ended."
            cpu_seconds = self.interrupt()
        text = self.log.read_text(errors="replace")
        sums = self.workshop / "sums.json"
        passed = self.process.returncode == 0 and not said
        log = self.log
        if not passed:  # the next run of the stage writes a new log
            log = log.replace(log.with_stem(f"{log.stem}-failed-{time.strftime('%m%d-%H%M%S')}"))
        result = Result(
            self.stage.name,
            self.key,
            passed,
            self.seconds,
            cpu_seconds,
            last_line(text) if passed else f"{said or failures(text)} See {log}.",
            self.worlds.start,
            self.worlds.stop,
            json.loads(sums.read_text()) if passed and sums.exists() else None,
        )
        shutil.rmtree(self.workshop)
        return result

    def interrupt(self) -> float:
        """Send all its processes SIGINT, then kill those that stay; return the CPU seconds."""
        for signal_number, seconds in (
            (signal.SIGINT, GRACE_SECONDS),
            (signal.SIGTERM, KEEPER_SECONDS),
            (signal.SIGKILL, KEEPER_SECONDS),
        ):
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal_number)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                if (cpu_seconds := self._reap()) is not None:
                    return cpu_seconds
                time.sleep(POLL_SECONDS)
        return 0.0

    def _reap(self) -> float | None:
        """CPU seconds of the command and its children if it has ended; None before."""
        ended, status, used = os.wait4(self.process.pid, os.WNOHANG)
        if not ended:
            return None
        self.process.returncode = os.waitstatus_to_exitcode(status)
        return used.ru_utime + used.ru_stime


@contextmanager
def _interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    before = {each: signal.signal(each, signal.default_int_handler) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def last_line(text: str) -> str:
    """The last line of a command, without pytest's frame."""
    lines = [line.strip(" =") for line in text.splitlines() if line.strip(" =")]
    return lines[-1] if lines else ""


def failures(text: str) -> str:
    """The first failures in a log, or its last line."""
    found = list(dict.fromkeys(each["test"] or each["seed"] for each in FAILURE.finditer(text)))
    if not found:
        return last_line(text)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{', '.join(found[:NAMED])}{more}."


def verify(
    stages: Sequence[Stage],
    kept: Kept,
    *,
    seeds: int,
    day: str,
    afresh: bool = False,
    lanes: int = LANES,
) -> list[Result]:
    """Run the stages that have not passed with the current files; return all results.

    Up to `lanes` stages run side by side. Ctrl-C and SIGTERM end them and raise
    `KeyboardInterrupt`.
    """

    def key_of(stage: Stage) -> str:
        # Computed again each time, so that a stage does not pass if files changed meanwhile.
        return results.key_of(stage, results.files(ROOT), seeds=seeds, day=day)

    def begin(stage: Stage) -> None:
        key, last = key_of(stage), kept.result(stage)
        if last and last.passed and last.key == key and not afresh:
            print(f"{stage.name}: passed before with the same files.", flush=True)
            found[stage.name] = last
            return
        usually = f" (last time {last.seconds / 60:.0f} min)" if last else ""
        print(f"{stage.name} ...{usually}", flush=True)
        worlds = range(0)
        if stage.draws:
            first = results.first_seed(day, [recorded_end, last.end if last else 0])
            worlds = range(first, first + seeds)
        running.append(_Run.begin(stage, kept, key=key, worlds=worlds))

    def end(run: _Run, result: Result) -> None:
        running.remove(run)
        if key_of(run.stage) != run.key:
            result = replace(result, passed=False, said="Files changed while it ran.")
        kept.keep(result)
        found[run.stage.name] = result
        state = "passed" if result.passed else "FAILED"
        print(f"{run.stage.name} {state}: {result.said}", flush=True)

    recorded_end = results.recorded(ROOT).get("simulated", {}).get("end", 0)
    waiting, running = [*stages], list[_Run]()
    found: dict[str, Result] = {}
    with _interrupted_by(signal.SIGINT, signal.SIGTERM):
        try:
            while waiting or running:
                if waiting and _has_room(waiting[0], running, lanes):
                    begin(waiting.pop(0))
                    continue
                _show(running, kept)
                time.sleep(POLL_SECONDS)
                for run, result in [(each, each.result(LIMIT_SECONDS)) for each in running]:
                    if result is not None:
                        end(run, result)
        except KeyboardInterrupt:
            for run in running:
                run.interrupt()
            raise
    return [found[stage.name] for stage in stages]


def _has_room(stage: Stage, running: Sequence[_Run], lanes: int) -> bool:
    """Whether a stage may begin next to those that run."""
    if stage.alone or any(run.stage.alone for run in running):
        return not running
    return len(running) < lanes


def _show(running: Sequence[_Run], kept: Kept) -> None:
    """On a terminal, show how long each has run, and how long it took last time."""
    if not sys.stdout.isatty():
        return
    said = []
    for run in running:
        last = kept.result(run.stage)
        usually = f" of about {_clock(last.seconds)}" if last else ""
        said.append(f"{run.stage.name} {_clock(run.seconds)}{usually}")
    print(f"\r{' | '.join(said)}{CLEAR_LINE}\r", end="", flush=True)


def _clock(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(round(seconds), 60))


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _write_record(found: Sequence[Result], day: str) -> str:
    """Write the record and its badge if nothing else is uncommitted; return a sentence."""
    if _git("status", "--porcelain", "--", ".", f":!{RECORD}", f":!{BADGE}"):
        return f"{RECORD} is not written: there are uncommitted changes."
    commit = _git("rev-parse", "HEAD")
    content = results.record(found, results.recorded(ROOT), commit=commit, day=day)
    (ROOT / RECORD).write_text(f"{json.dumps(content, indent=2)}\n")
    ever = content["simulated"]
    (ROOT / BADGE).write_text(badge.svg(ever))
    return (
        f"Written to {RECORD}. Since {ever['since']}: {ever['seeds']:,} seeds, {ever['faults']:,} "
        f"faults, {ever['entries']:,} verified deliveries."
    )


def main() -> int:
    """Run the stages; exit status 1 if one has failed."""
    parser = argparse.ArgumentParser(prog="python -m tools.verify", description=__doc__)
    parser.add_argument(
        "stages", nargs="*", metavar="STAGE", help=f"of {', '.join(each.name for each in STAGES)}"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many new simulated worlds")
    parser.add_argument("--afresh", action="store_true", help="also run stages that have passed")
    parser.add_argument("--lanes", type=int, default=LANES, help="how many run side by side")
    parser.add_argument("--json", action="store_true", help="print the results as JSON")
    chosen = parser.parse_args()
    unknown = {*chosen.stages} - {each.name for each in STAGES}
    if unknown:
        parser.error(f"there is no stage {', '.join(sorted(unknown))}; see --help")
    stages = [named(name) for name in chosen.stages] or STAGES
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    kept = Kept(ROOT / ".verify")
    began = time.monotonic()
    try:
        found = verify(
            stages, kept, seeds=chosen.seeds, day=day, afresh=chosen.afresh, lanes=chosen.lanes
        )
    except KeyboardInterrupt:
        print("\nInterrupted. `make verify` continues.", file=sys.stderr)
        return INTERRUPTED
    if chosen.json:
        print(json.dumps([vars(result) for result in found], indent=2))
    else:
        print(results.table(found))
    failed = [result.stage for result in found if not result.passed]
    minutes = (time.monotonic() - began) / 60
    if failed:
        print(f"verify: {', '.join(failed)} failed, in {minutes:.0f} min.")
        return 1
    print(f"verify: {len(found)} stages passed; this run took {minutes:.0f} min.")
    if len(found) == len(STAGES):
        print(_write_record(found, day))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""`make verify`: run every stage that has not passed for the files as they are.

A stage that fails names its log, and the next ones run. Ctrl-C ends the command; started again, it
goes on where it was. Once every stage has passed on a commit, `docs/verified.json` is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tools.verify import results
from tools.verify.results import RECORD, Kept, Result
from tools.verify.stages import LIMIT_SECONDS, SEEDS, STAGES, Stage, named

ROOT = Path(__file__).resolve().parents[2]
INTERRUPTED = 130  # the exit status of a command that Ctrl-C ended
# How long a stage has to end by itself when it is stopped.
GRACE_SECONDS = 20.0
# How many failures of a stage the table names.
NAMED = 3
# What names a failure in a log: pytest's and the simulation's lines, make's last resort.
FAILURE = re.compile(r"^(?:(?:FAILED|ERROR) (?P<test>\S+)|(?P<seed>seed \d+: .*))", re.MULTILINE)


def run(stage: Stage, kept: Kept, *, key: str, seeds: int, start: int, limit: float) -> Result:
    """Run a stage to its end; Ctrl-C and SIGTERM end it, and raise `KeyboardInterrupt`."""
    workshop = kept.workshop(stage, key)
    workshop.mkdir(parents=True, exist_ok=True)
    command = [word.format(seeds=seeds, start=start, folder=workshop) for word in stage.command]
    began, before = time.monotonic(), _cpu_seconds()
    said = ""
    with kept.log(stage).open("w") as log, _interrupted_by(signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that all that it has started ends with it
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            said = (
                f"It was ended after {limit / 60:.0f} minutes, in which it did not end by itself."
            )
            _end(process)
        except KeyboardInterrupt:
            _end(process)
            raise
    passed = process.returncode == 0 and not said
    text = kept.log(stage).read_text(errors="replace")
    sums = workshop / "sums.json"
    result = Result(
        stage.name,
        key,
        passed,
        time.monotonic() - began,
        _cpu_seconds() - before,
        last_line(text) if passed else f"{said or failures(text)} See {kept.log(stage)}.",
        start,
        start + seeds if stage.draws else 0,
        json.loads(sums.read_text()) if passed and sums.exists() else None,
    )
    shutil.rmtree(workshop)
    return result


@contextmanager
def _interrupted_by(*signals: signal.Signals) -> Iterator[None]:
    before = {each: signal.signal(each, signal.default_int_handler) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask all processes of a stage to end, as Ctrl-C does, and end those that do not."""
    for signal_number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, signal_number)
            process.wait(GRACE_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def _cpu_seconds() -> float:
    """CPU seconds of all commands that have ended, with their own children."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def last_line(text: str) -> str:
    """What a command said last, without pytest's frame."""
    lines = [line.strip(" =") for line in text.splitlines() if line.strip(" =")]
    return lines[-1] if lines else ""


def failures(text: str) -> str:
    """The first failures that a log names, or its last line."""
    found = list(dict.fromkeys(each["test"] or each["seed"] for each in FAILURE.finditer(text)))
    if not found:
        return last_line(text)
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"{', '.join(found[:NAMED])}{more}."


def verify(
    stages: Sequence[Stage], kept: Kept, *, seeds: int, day: str, afresh: bool = False
) -> list[Result]:
    """The result of each stage for the files as they are; runs those that have not passed yet."""
    recorded_end = results.recorded(ROOT).get("simulated", {}).get("end", 0)
    found: list[Result] = []
    for stage in stages:
        # Afresh each time: whoever edits while stages run gets no pass for what was not run.
        key = results.key_of(stage, results.files(ROOT), seeds=seeds, day=day)
        last = kept.result(stage)
        if last and last.passed and last.key == key and not afresh:
            print(f"{stage.name}: passed before for the same files.", flush=True)
            found.append(last)
            continue
        print(f"{stage.name} ...{_usually(last)}", flush=True)
        start = 0
        if stage.draws:
            start = results.first_seed(day, [recorded_end, last.end if last else 0])
        result = run(stage, kept, key=key, seeds=seeds, start=start, limit=LIMIT_SECONDS)
        if results.key_of(stage, results.files(ROOT), seeds=seeds, day=day) != key:
            print(f"{stage.name}: files changed while it ran, so it counts for nothing.")
            result = Result(**{**vars(result), "passed": False, "said": "Files changed meanwhile."})
        kept.keep(result)
        print(f"  {'passed' if result.passed else 'FAILED'}: {result.said}", flush=True)
        found.append(result)
    return found


def _usually(last: Result | None) -> str:
    return f" (last time {last.seconds / 60:.0f} min)" if last else ""


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _write_record(found: Sequence[Result], day: str) -> str:
    """Write `docs/verified.json` if there is no other change; returns what to say."""
    if _git("status", "--porcelain", "--", ".", f":!{RECORD}"):
        return f"{RECORD} is not written: there are changes that no commit has."
    commit = _git("rev-parse", "HEAD")
    content = results.record(found, results.recorded(ROOT), commit=commit, day=day)
    (ROOT / RECORD).write_text(f"{json.dumps(content, indent=2)}\n")
    ever = content["simulated"]
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
    parser.add_argument("--afresh", action="store_true", help="run what has passed, too")
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
        found = verify(stages, kept, seeds=chosen.seeds, day=day, afresh=chosen.afresh)
    except KeyboardInterrupt:
        print("\nInterrupted. `make verify` goes on where it was.", file=sys.stderr)
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
    print(f"verify: {len(found)} stages passed, {minutes:.0f} min of it now.")
    if len(found) == len(STAGES):
        print(_write_record(found, day))
    return 0


if __name__ == "__main__":
    sys.exit(main())

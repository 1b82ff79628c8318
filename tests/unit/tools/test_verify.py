"""`make verify` runs each stage once for the same files, and hides no failure."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.unit.house.test_architecture import ROOT, imported, modules
from tools.verify import __main__ as command
from tools.verify import badge, results
from tools.verify.results import BADGE, RECORD, Kept, Result
from tools.verify.stages import Stage, named

pytestmark = pytest.mark.thorough

DAY = "2026-11-24"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with two files, in which the command runs."""
    root = tmp_path / "checkout"
    write(root, ".gitignore", ".verify/\n")
    write(root, "fanfold/plan.py", "1")
    write(root, "docs/api.md", "1")
    git(root, "init", "--quiet")
    git(root, "add", "--all")
    ada = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    git(root, *ada, "commit", "--quiet", "--message", "Begin")
    monkeypatch.setattr(command, "ROOT", root)
    monkeypatch.setattr(command, "POLL_SECONDS", 0.01)
    return root


def git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True)


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def stage(name: str, program: str = "print('all is well')", *reads: str) -> Stage:
    return Stage(name, (sys.executable, "-P", "-c", program), reads)


def verify(
    root: Path, *stages: Stage, day: str = DAY, afresh: bool = False, seeds: int = 4_000
) -> list[Result]:
    return command.verify(stages, Kept(root / ".verify"), seeds=seeds, day=day, afresh=afresh)


def runs(root: Path, name: str) -> int:
    """How often a stage made by `counting` has run."""
    path = root / ".verify" / f"{name}.runs"
    return len(path.read_text()) if path.exists() else 0


def counting(root: Path, name: str, *reads: str) -> Stage:
    path = root / ".verify" / f"{name}.runs"
    return stage(name, f"open({str(path)!r}, 'a').write('.'); print('1 passed')", *reads)


def test_what_passed_for_the_same_files_is_not_run_again_unless_asked(checkout: Path) -> None:
    chosen = counting(checkout, "test")
    first, second = verify(checkout, chosen), verify(checkout, chosen)
    assert first == second
    assert (first[0].passed, first[0].said) == (True, "1 passed")
    write(checkout, RECORD, "{}")
    write(checkout, BADGE, "<svg/>")
    verify(checkout, chosen)
    assert runs(checkout, "test") == 1, "the record and its badge are none of them"
    verify(checkout, chosen, afresh=True)
    assert runs(checkout, "test") == 2


def test_a_stage_runs_again_once_a_file_that_it_reads_has_changed(checkout: Path) -> None:
    everything, product = counting(checkout, "test"), counting(checkout, "world", "fanfold")
    less = replace(counting(checkout, "demo"), leaves_out=("docs",))

    def counted() -> tuple[int, ...]:
        verify(checkout, everything, product, less)
        return tuple(runs(checkout, each) for each in ("test", "world", "demo"))

    assert counted() == (1, 1, 1)
    write(checkout, "docs/api.md", "2")
    assert counted() == (2, 1, 1)
    write(checkout, "fanfold/new.py", "not tracked yet")
    assert counted() == (3, 2, 2)


def test_a_failure_keeps_its_log_runs_again_and_the_next_stages_still_run(checkout: Path) -> None:
    mends_itself = stage(
        "test",
        "import pathlib; path = pathlib.Path('.verify/mended')\n"
        "was = path.exists(); path.touch()\n"
        "print('FAILED tests/unit/test_plan.py::test_hangs - Timeout'); raise SystemExit(not was)",
    )
    found = verify(checkout, mends_itself, counting(checkout, "demo"))
    assert [each.passed for each in found] == [False, True]
    assert "tests/unit/test_plan.py::test_hangs" in found[0].said
    log = Path(found[0].said.partition(" See ")[2].removesuffix("."))
    assert runs(checkout, "demo") == 1
    assert verify(checkout, mends_itself)[0].passed
    assert "Timeout" in log.read_text()


def test_nothing_runs_beside_a_stage_that_measures_speed(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    speed = replace(stage("speed"), alone=True)
    verify(checkout, stage("slow"), speed, stage("demo"))
    said = [" ".join(line.split()[:2]) for line in capsys.readouterr().out.splitlines()]
    assert said == [
        f"{name} {what}" for name in ("slow", "speed", "demo") for what in ("...", "passed:")
    ]


# A stage that starts what a local engine is: processes in a session of their own, with variables of
# their own. They hold a file open.
LEAVES = """
import os, signal, subprocess, sys
engine = subprocess.Popen(
    ["sh", "-c", "sleep 1000 & echo begun; wait"],
    stdout=subprocess.PIPE, stderr=open(".verify/held", "w"),
    env=dict(PATH=os.environ["PATH"]), start_new_session=True,
)
engine.stdout.readline()
"""
# What it does then, as its words say it.
PASSES = "print('all is well')"
HANGS = "signal.pause()"
IGNORES = f"for each in (2, 15): signal.signal(each, signal.SIG_IGN)\n{HANGS}"
INTERRUPTS, KILLS = (f"os.kill(int(sys.argv[1]), {each}); {HANGS}" for each in (2, 9))

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="Elsewhere it ends by itself.")


@pytest.fixture
def held(checkout: Path) -> Iterator[int]:
    """The file: there is nothing to read once nobody else has it open."""
    path = checkout / ".verify" / "held"
    path.parent.mkdir()
    os.mkfifo(path)
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    yield file
    os.close(file)


def leaving(then: str) -> tuple[str, ...]:
    """Its command, to be followed by the process that it interrupts or kills."""
    return (sys.executable, "-P", "-c", LEAVES + then)


@on_linux
@pytest.mark.parametrize("then", [PASSES, HANGS, IGNORES], ids=["passes", "hangs", "ignores"])
def test_all_processes_of_a_stage_end_with_it_and_it_is_ended_if_it_hangs(
    checkout: Path, held: int, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    if then != PASSES:
        monkeypatch.setattr(command, "LIMIT_SECONDS", 1.5)
    if then == IGNORES:
        monkeypatch.setattr(command, "GRACE_SECONDS", 0.0)
    (found,) = verify(checkout, Stage("test", leaving(then)))
    assert os.read(held, 1) == b""
    assert found.passed == (then == PASSES)
    assert ("did not end by itself" in found.said) == (then != PASSES)


@on_linux
def test_all_processes_of_a_stage_end_if_it_is_interrupted_or_make_verify_is_killed(
    checkout: Path, held: int
) -> None:
    with pytest.raises(KeyboardInterrupt):
        verify(checkout, Stage("test", (*leaving(INTERRUPTS), str(os.getpid()))))
    assert os.read(held, 1) == b""
    begin = "import os, subprocess, sys; subprocess.run([*sys.argv[1:], str(os.getpid())])"
    keeper = (sys.executable, "-P", "-m", "tools.verify.keeper")
    killed = (sys.executable, "-P", "-c", begin, *keeper, *leaving(KILLS))
    assert subprocess.run(killed, cwd=checkout, check=False).returncode == -9
    os.set_blocking(held, True)
    assert os.read(held, 1) == b"", "soon"


def test_files_that_change_while_a_stage_runs_make_it_count_for_nothing(checkout: Path) -> None:
    (found,) = verify(checkout, stage("test", "open('docs/api.md', 'a').write('2')"))
    assert not found.passed


@pytest.mark.parametrize("sent", ["SIGINT", "SIGTERM"])
def test_an_interrupted_stage_goes_on_from_what_it_has_kept(checkout: Path, sent: str) -> None:
    goes_on = (
        "import pathlib, sys, os, signal; kept = pathlib.Path(sys.argv[1], 'half')\n"
        "if kept.exists(): print('went on'); raise SystemExit\n"
        f"kept.touch(); os.kill(int(sys.argv[2]), signal.{sent}); signal.pause()"
    )
    program = (sys.executable, "-P", "-c", goes_on, "{folder}", str(os.getpid()))
    chosen = Stage("simulation", program)
    with pytest.raises(KeyboardInterrupt):
        verify(checkout, chosen)
    assert verify(checkout, chosen)[0].said == "went on"


def draw(program: str, *more: str) -> Stage:
    """A stage that is given where its worlds begin."""
    return Stage(
        "simulation", (sys.executable, "-P", "-c", program, "{start}", *more), ("fanfold",)
    )


def test_each_run_draws_worlds_that_no_earlier_one_has_drawn(checkout: Path) -> None:
    draws = "import sys, json; json.dump(dict(seeds=4000), open(sys.argv[2], 'w'))"
    chosen = draw(draws, "{folder}/sums.json")
    starts = [verify(checkout, chosen)[0].start]
    write(checkout, "fanfold/plan.py", "2")
    starts.append(verify(checkout, chosen)[0].start)
    starts.append(verify(checkout, chosen, day="2026-11-25")[0].start)
    assert starts == [26_112_400_000, 26_112_404_000, 26_112_500_000]


@pytest.mark.parametrize("fails", [False, True])
def test_a_short_run_draws_no_world_of_a_longer_one_before_it(checkout: Path, fails: bool) -> None:
    chosen = draw(f"raise SystemExit({fails})")
    (longer,) = verify(checkout, chosen, seeds=20_000)
    (shorter,) = verify(checkout, chosen, seeds=4_000)
    assert (longer.passed, longer.start, longer.end) == (not fails, 26_112_400_000, 26_112_420_000)
    assert (shorter.start, shorter.end) == (26_112_420_000, 26_112_424_000)


def result(name: str, start: int = 0, **sums: int) -> Result:
    end = start + sums.get("seeds", 0)
    return Result(name, "key", True, 61.0, 99.6, "well", start, end, sums or None)


def simulated(start: int = 26_112_400_000, seeds: int = 4_000) -> Result:
    return result("simulation", start=start, seeds=seeds, faults=7, entries=9)


def test_the_record_adds_up_all_worlds_since_the_first_and_none_twice() -> None:
    known: dict[str, Any] = {}
    seeds = []
    for start in (26_112_400_000, 26_112_400_000, 26_112_500_000, 26_112_503_999):
        known = results.record([simulated(start)], known, commit="abc", day=DAY)
        seeds.append(known["simulated"]["seeds"])
    assert seeds == [4_000, 4_000, 8_000, 8_000]
    sums = {"seeds": 8_000, "faults": 14, "entries": 18}
    assert known["simulated"] == {"since": DAY, "end": 26_112_504_000, **sums}
    later = results.record([simulated(26_112_600_000)], known, commit="def", day="2026-11-26")
    assert later["simulated"]["since"] == DAY


def test_the_record_is_written_only_where_a_commit_has_every_change(checkout: Path) -> None:
    said = command._write_record([result("test")], DAY)
    assert RECORD in said
    written = json.loads((checkout / RECORD).read_text())
    assert (checkout / BADGE).read_text() == badge.svg(written["simulated"])
    assert "not written" not in command._write_record([result("test")], DAY)
    assert written["stages"] == [
        {"stage": "test", "seconds": 61, "cpu_seconds": 100, "said": "well"}
    ]
    write(checkout, "fanfold/plan.py", "2")
    assert "not written" in command._write_record([result("test")], DAY)


def test_the_badge_of_the_readme_says_what_is_recorded() -> None:
    ever = results.recorded(ROOT)["simulated"]
    assert (ROOT / BADGE).read_text() == badge.svg(ever)
    assert f"({BADGE})" in (ROOT / "README.md").read_text()
    assert all(f"{ever[name]:,} " in badge.svg(ever) for name in ("seeds", "faults", "entries"))


@cache
def imports_of(name: str, path: Path) -> tuple[str, ...]:
    """What a module imports: modules, and names in them."""
    used = [each for _, each, _ in imported(ast.parse(path.read_text()), name)]
    return (*used, *(each.rpartition(".")[0] for each in used))


def imported_from(*folders: str) -> set[str]:
    """The files of all modules of these folders, and of what they import, and so on."""
    tests = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (ROOT / "tests").rglob("*.py")
    }
    known = {**modules(), **tests}
    left = [
        name
        for name, path in known.items()
        if any(path.is_relative_to(ROOT / each) for each in folders)
    ]
    found = {*left}
    while left:
        name = left.pop()
        new = {each for each in imports_of(name, known[name]) if each in known} - found
        found |= new
        left += new
    return {known[name].relative_to(ROOT).as_posix() for name in found}


HERE, TESTS = Path(__file__), ROOT / "tests"
IMPORTS = {
    "simulation": ["proof/simulation"],
    "mutations": ["proof/mutants", "proof/simulation"],
    "mutants": ["proof/mutants", "tests/unit", "tests/integration"],
    "judges": ["tests/integration"],
    "doors": ["tests/doors"],
    "slow": [f"tests/{each}" for each in ("bench", "compat", "e2e", "wheel", "wire")],
    "speed": ["tests/bench", "tests/e2e"],
    "demo": ["fanfold_cli", "functions", "infra"],
}


def test_slow_tests_are_where_a_stage_looks_for_them() -> None:
    slow = [path for path in TESTS.rglob("*.py") if "pytest.mark.slow" in path.read_text()]
    folders = {f"tests/{path.relative_to(TESTS).parts[0]}" for path in slow if path != HERE}
    assert folders == {*IMPORTS["slow"], *IMPORTS["doors"]}


def test_a_stage_reads_whatever_its_modules_import() -> None:
    for name, folders in IMPORTS.items():
        read = imported_from(*folders)
        assert [path for path in read if not named(name).is_about(path)] == [], name

"""The list of mutants fits the source, and says who notices them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from proof.mutants import listing, running, simulated
from proof.mutants.__main__ import MIN_SHARE, Result, judge, main, table
from proof.mutants.listing import LIST, MODULES, ROOT, SIMULATION, Mutant, Verdict

LISTED = listing.read()
OTHERS = [mutant for mutant in LISTED if not mutant.is_guard]
GONE = Mutant("fanfold/fanout/plan.py", "guard: nothing is lost", "never_written()", "pass")


def test_every_listed_mutant_is_a_program_of_its_own_that_somebody_notices() -> None:
    for mutant in LISTED:
        mutated = mutant.source()  # raises LookupError, with what to do
        assert mutated != (ROOT / mutant.file).read_text()
        ast.parse(mutated)
        assert mutant.known, f"{mutant.name}: python -m proof.mutants --note"
        file, _, test = mutant.known.partition("::")
        if file.startswith("tests/"):
            name = test.partition("[")[0]
            assert f"def {name}(" in (ROOT / file).read_text(), mutant
            assert not mutant.is_guard, mutant
        else:
            assert mutant.is_argued or file.startswith(SIMULATION), mutant
    assert len({mutant.source() for mutant in LISTED}) == len(LISTED)


def test_the_list_covers_every_module_and_argues_few_mutants(tmp_path: Path) -> None:
    assert {mutant.file for mutant in OTHERS} == set(MODULES)
    assert sum(mutant.is_argued for mutant in OTHERS) <= (1 - MIN_SHARE) * len(OTHERS)
    assert all((ROOT / test).exists() for file in MODULES for test in listing.tests_of(file))
    listing.write(LISTED, tmp_path / LIST.name)
    assert (tmp_path / LIST.name).read_text() == LIST.read_text()


def test_a_mutant_that_fits_no_longer_is_named_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running, "prepare", pytest.fail)
    monkeypatch.setattr(running, "attempt", pytest.fail)
    monkeypatch.setattr(sys, "argv", ["mutants"])
    for file in (GONE.file, "fanfold/never_written.py"):
        monkeypatch.setattr(listing, "read", lambda file=file: [*LISTED, replace(GONE, file=file)])
        assert main() == 1
        said = capsys.readouterr().out
        assert f"{file} must hold the text of 'guard: nothing is lost'" in said


def test_a_guard_is_tried_on_its_known_seed_then_on_all_seeds_and_on_no_tests(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    catch = Mock(return_value=Verdict())
    monkeypatch.setattr(simulated, "catch", catch)
    monkeypatch.setattr(running, "run_tests", pytest.fail)
    guard = replace(GONE, known="simulation 7")
    assert not running.attempt(guard).by
    first, then = catch.call_args_list
    assert first.kwargs == {"start": 7, "seeds": 1}
    assert then.kwargs == {"seeds": running.GUARD_SEEDS}


@pytest.mark.thorough
def test_a_mutant_is_noticed_by_a_test_and_the_working_tree_stays_as_it_is() -> None:
    module = ROOT / "fanfold/fanout/plan.py"
    before = module.read_text()
    command = [sys.executable, "-P", "-m", "proof.mutants", "--only", "count_for", "--jobs", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "mutants: 1 of 1 noticed (100.0%)" in done.stdout
    assert module.read_text() == before


def results(survivors: int, argued: int = 0) -> list[Result]:
    """A hundred mutants of which some survive, and of these some are argued."""
    found = []
    for number in range(100):
        known = "equivalent: it only costs time" if number < argued else ""
        by = "" if number < survivors else "tests/unit/fanout/test_plan.py::test_it"
        found.append((Mutant(MODULES[0], "act: logic", str(number), "", known), Verdict(by)))
    return found


def test_a_survivor_must_be_argued_and_few_may_be_and_a_guard_never() -> None:
    cases = ((0, 0, 0), (5, 5, 0), (1, 0, 1), (5, 4, 1), (6, 6, 1))
    for survivors, argued, wrong in cases:
        assert len(judge(results(survivors, argued))) == wrong
    guard = replace(GONE, known="equivalent: it only costs time")
    assert len(judge([(guard, Verdict()), *results(0)])) == 1


def test_the_table_tells_who_noticed_how_many() -> None:
    by = [Verdict("tests/a::b"), Verdict("simulation 7", timed_out=True), Verdict("")]
    mutant = Mutant(MODULES[0], "act: logic", "", "")
    *_, total = table([(mutant, verdict) for verdict in by]).splitlines()
    assert Counter(total.split()[1:]) == Counter(["3", "1", "1", "1", "1"])

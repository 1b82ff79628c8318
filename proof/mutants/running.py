"""Try one mutant: its tests in a forked process that loads the mutated module, then seeds.

Libraries are imported once, before the fork; product, tests and fixtures are not, so each process
imports the mutated module like the original.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_file_location
from types import CodeType
from typing import Any

import hypothesis
import pytest

from proof.mutants import simulated
from proof.mutants.listing import ROOT, SIMULATION, Mutant, Verdict, tests_of

# What tests import besides the product: half of a short test's time.
LIBRARIES = (
    "boto3",
    "moto",
    "moto.dynamodb.models",
    "moto.sqs.models",
    "aws_lambda_powertools.utilities.batch",
    "pydantic",
    "xdist.scheduler",
)
OPTIONS = (
    *("-x", "-q", "--assert=plain", "--hypothesis-profile=mutants"),
    *("-p", "no:randomly", "-p", "no:cacheprovider"),
    *("-m", "not (thorough or slow or speed or network)"),
)
# A mutant may never end. The slowest file takes a tenth of this.
TEST_SECONDS = 300.0
# A limit for the test that noticed it last time.
KNOWN_SECONDS = 30.0
# Seeds for a guard, whose removal one must notice; and for other mutants, after the tests.
GUARD_SEEDS, SEEDS = 500, 100
_NOTHING_RAN = (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.NO_TESTS_COLLECTED)


class _Finder(MetaPathFinder):
    """Finds the mutated module, and leaves all others to the usual finders."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant, self.path = mutant, str(ROOT / mutant.file)

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if fullname != self.mutant.module:
            return None
        loader = _Loader(fullname, self.path)
        loader.mutated = self.mutant.source()
        return spec_from_file_location(fullname, self.path, loader=loader)


class _Loader(SourceFileLoader):
    mutated = ""

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.mutated, self.path, "exec", dont_inherit=True)


class _Reporter:
    """Writes each test that starts, and the first that fails, to a pipe."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe

    def _say(self, what: str, test: str) -> None:
        os.write(self.pipe, f"{json.dumps([what, test])}\n".encode())

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._say("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say("failed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._say("failed", report.nodeid)


def prepare() -> None:
    """Import the libraries; called before processes are forked."""
    for name in LIBRARIES:
        importlib.import_module(name)
    # The same examples each time, so that results do not vary; and no shrinking, which takes a
    # minute.
    phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
    hypothesis.settings.register_profile(
        "mutants", deadline=None, derandomize=True, database=None, phases=phases
    )


def run_tests(tests: Sequence[str], mutant: Mutant | None, seconds: float) -> Verdict:
    """Run tests in a new process until one fails; without a mutant, on the unchanged code."""
    reads, writes = os.pipe()
    began = time.monotonic()
    child = os.fork()
    if not child:
        os.close(reads)
        _run(tests, mutant, writes)
    os.close(writes)
    said, last, failed, timed_out = b"", "", "", False
    while True:
        left = began + seconds - time.monotonic()
        ready = left > 0 and select.select([reads], [], [], left)[0]
        if not ready:
            timed_out = True
            os.kill(child, signal.SIGKILL)
            break
        chunk = os.read(reads, 65536)
        if not chunk:
            break
        said += chunk
    os.close(reads)
    _, status = os.waitpid(child, 0)
    for line in said.decode().splitlines():
        what, test = json.loads(line)
        last = test
        failed = failed or (test if what == "failed" else "")
    spent = time.monotonic() - began
    if timed_out:
        return Verdict(last or tests[0], True, spent)
    code = os.waitstatus_to_exitcode(status)
    if code in (pytest.ExitCode.OK, *_NOTHING_RAN):
        return Verdict(seconds=spent)
    return Verdict(failed or last or tests[0], False, spent)


def _run(tests: Sequence[str], mutant: Mutant | None, pipe: int) -> None:
    """The child's life: it never returns."""
    code: int = pytest.ExitCode.INTERNAL_ERROR
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.chdir(ROOT)
        sys.path.insert(0, str(ROOT))
        if mutant:
            sys.meta_path.insert(0, _Finder(mutant))
        for name in [name for name in sys.modules if name.partition(".")[0] in simulated.PACKAGES]:
            del sys.modules[name]
        code = pytest.main([*OPTIONS, *tests], plugins=[_Reporter(pipe)])
    finally:
        os._exit(code)


def attempt(mutant: Mutant, *, seeds: int | None = None) -> Verdict:
    """Who notices a mutant: who did last time, then its tests, then the simulation.

    Guards are left to the simulation.
    """
    known = mutant.known
    if mutant.is_argued:
        return Verdict()  # all tests and seeds would pass, and take minutes
    verdict = Verdict()
    if known.startswith(f"{SIMULATION} "):
        verdict = simulated.catch(mutant, start=int(known.split()[1]), seeds=1)
    elif known.startswith("tests/"):
        verdict = run_tests([known], mutant, KNOWN_SECONDS)
    if verdict.by:
        return verdict
    # File by file: the first notices most, and then the others are not even collected.
    for file in () if mutant.is_guard else tests_of(mutant.file):
        verdict = run_tests([file], mutant, TEST_SECONDS)
        if verdict.by:
            return verdict
    return simulated.catch(mutant, seeds=seeds or (GUARD_SEEDS if mutant.is_guard else SEEDS))

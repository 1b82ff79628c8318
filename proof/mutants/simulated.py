"""Run the simulation on a copy of the packages with a mutant."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from proof.mutants.listing import ROOT, SIMULATION, Mutant, Verdict

PACKAGES = ("fanfold", "fanfold_cli", "functions", "proof/model", "proof/simulation")
# A mutant that never ends is noticed, too. For a guard, only a violation counts.
SECONDS = 600.0


def copy_with(mutant: Mutant, target: Path) -> None:
    """Copy the packages with a mutant; raises `LookupError` if it does not fit the source."""
    mutated = mutant.source()
    for package in PACKAGES:
        # With the bytecode, which is valid for all files except the one written below.
        shutil.copytree(ROOT / package, target / package)
    (target / mutant.file).write_text(mutated)


def catch(mutant: Mutant, *, seeds: int, start: int = 0) -> Verdict:
    """Run seeds on a copy until one has a violation."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        copy_with(mutant, Path(folder))
        options = ["--seeds", str(seeds), "--start", str(start), "--jobs", "1", "--first"]
        if mutant.kind:
            options += ["--kind", mutant.kind]
        try:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "proof.simulation", *options],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": folder},
                capture_output=True,
                text=True,
                check=False,
                timeout=None if mutant.is_guard else SECONDS,
            )
        except subprocess.TimeoutExpired:
            return Verdict(SIMULATION, True, time.monotonic() - began)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    seconds = time.monotonic() - began
    found = re.search(r"^seed (\d+): (\w+)", done.stdout, re.MULTILINE)
    if found is None:
        return Verdict(seconds=seconds)
    return Verdict(f"{SIMULATION} {found[1]}", False, seconds, found[2])

"""`python -m tests.simulation.traces 10`: a sum over all that happens in worlds of each kind."""

from __future__ import annotations

import re
import sys
import tempfile
from hashlib import sha256

from proof.simulation.kinds.drawn import KINDS
from proof.simulation.world.lambdas import installed

# Operators' files lie in a folder with a random name.
FOLDER = re.compile(re.escape(f"{tempfile.gettempdir()}/") + "[a-z0-9_]+")


def main(count: int) -> None:
    """Print kind, seed and sum of each world, a line each."""
    with installed():
        for kind in KINDS:
            for seed in range(count):
                world = kind.make(seed)
                kind.live(world)
                trace = FOLDER.sub("FOLDER", "\n".join(world.trace))
                print(kind.name, seed, sha256(trace.encode()).hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]))

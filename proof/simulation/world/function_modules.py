"""Imports functions' modules anew: each copy is an environment of Lambda."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def imported_anew() -> Iterator[None]:
    """Within the block, importing a function makes a copy; then the old modules are back."""
    before = {name: sys.modules.pop(name) for name in _of_functions()}
    try:
        yield
    finally:
        for name in _of_functions():
            del sys.modules[name]
        sys.modules.update(before)


def _of_functions() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == "functions"]

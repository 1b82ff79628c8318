"""The functions on the models, for all tests of a module."""

from collections.abc import Iterator

import pytest

from tests.doors.service import Doors, opened


@pytest.fixture(scope="module")
def functions() -> Iterator[Doors]:
    with opened() as doors:
        yield doors

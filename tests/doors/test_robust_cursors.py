"""Whatever is given as a cursor: it is one that the service wrote, or it is refused."""

from __future__ import annotations

from fanfold import cursor
from fanfold.errors import BadInput
from fanfold.follows.publisher.audience import is_place
from fanfold.follows.publisher.followers import _is_place
from fanfold.ids import is_id, is_sort_key
from fanfold.times import is_text
from tests.doors.cases import every, few_or_many
from tests.doors.strategies import cursors, texts

# What each list takes for a position.
POSITIONS = (is_id, _is_place, is_place, is_sort_key, is_text)


@few_or_many
def test_any_cursor_is_read_as_it_was_written_or_refused(cases: int) -> None:
    def check(text: str) -> None:
        for is_position in POSITIONS:
            try:
                read = cursor.decode(text, is_position=is_position)
            except BadInput:
                continue
            assert is_position(read.position)
            assert is_position(read.low)
            assert read.low <= read.position
            assert cursor.encode(read) == text

    every(cases, cursors | texts, check)

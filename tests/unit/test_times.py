"""Times as text of fixed width."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import times
from fanfold.errors import BadInput

instants = st.integers(-62_135_596_800_000, 253_402_300_799_999)  # the years 1 to 9999


@given(instants)
def test_a_time_is_read_as_it_was_written(ms: int) -> None:
    text = times.to_text(ms)
    assert len(text) == times.WIDTH == 24
    assert times.to_ms(text) == ms


@given(instants, instants)
def test_texts_sort_by_time(first: int, second: int) -> None:
    assert (times.to_text(first) < times.to_text(second)) == (first < second)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_795_197_600_123, "2026-11-20T18:00:00.123Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_time_is_written_in_utc_with_milliseconds(ms: int, text: str) -> None:
    assert times.to_text(ms) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "2026-11-20",
        "2026-11-20T18:00:00Z",
        "2026-11-20T18:00:00.1Z",
        "2026-11-20T18:00:00.123456Z",
        "2026-11-20T18:00:00.123",
        "2026-11-20T18:00:00.123z",
        "2026-11-20T18:00:00.123+00:00",
        "2026-11-20 18:00:00.123Z",
        " 2026-11-20T18:00:00.123Z",
        "2026-11-20T18:00:00.123Z\n",
        "2026-02-29T18:00:00.123Z",
        "2026-00-20T18:00:00.123Z",
        "2026-11-20T18:60:00.123Z",
        "2026-11-20T18:00:60.123Z",
        "0000-01-01T00:00:00.000Z",
        "\uff12026-11-20T18:00:00.123Z",
        "-026-11-20T18:00:00.123Z",
    ],
)
def test_anything_else_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match=r"^'since' is not a UTC .* like 2026-11-20T18:00:00.123Z"):
        times.to_ms(text, field="since")


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(BadInput):
        times.to_ms(text)

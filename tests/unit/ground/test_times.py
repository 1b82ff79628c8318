"""Times as text of fixed width."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fanfold import times
from fanfold.errors import BadInput

FIRST, LAST = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999
instants = st.integers(FIRST, LAST)


@given(instants)
def test_a_time_is_read_as_it_was_written(ms: int) -> None:
    text = times.to_text(ms)
    assert len(text) == times.WIDTH == 24
    assert times.to_ms(text) == ms


@given(instants, instants)
def test_texts_sort_by_time(first: int, second: int) -> None:
    assert (times.to_text(first) < times.to_text(second)) == (first < second)


# Each is 2026-11-20T18:00:00.123Z, written in another way that RFC 3339 allows, or finer.
SPELLINGS = [
    "2026-11-20T18:00:00.123Z",
    "2026-11-20t18:00:00.123z",
    "2026-11-20T18:00:00.123+00:00",
    "2026-11-20T20:00:00.123+02:00",
    "2026-11-20T12:15:00.123-05:45",
    "2026-11-19T18:01:00.123-23:59",
    "2026-11-20T18:00:00.1239999999999999999999Z",
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_spelling_of_a_time_is_the_same_millisecond(text: str) -> None:
    assert times.to_ms(text) == 1_795_197_600_123


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("2026-11-20T18:00:00Z", "2026-11-20T18:00:00.000Z"),
        ("2026-11-20T18:00:00.9999999Z", "2026-11-20T18:00:00.999Z"),
        ("2024-02-29T23:30:00-01:00", "2024-03-01T00:30:00.000Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999Z"),
        # A leap second, at the end of a month of UTC, is the last millisecond before it.
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59.999Z"),
        ("1990-12-31T15:59:60-08:00", "1990-12-31T23:59:59.999Z"),
    ],
)
def test_a_time_is_stored_in_milliseconds_of_utc_and_never_later(text: str, stored: str) -> None:
    assert times.to_text(times.to_ms(text)) == stored


@given(instants, st.integers(-23 * 60 - 59, 23 * 60 + 59), st.text("0123456789"))
def test_an_offset_is_taken_off_and_a_finer_fraction_is_cut(
    ms: int, minutes: int, finer: str
) -> None:
    local = ms + minutes * 60_000
    assume(FIRST <= local <= LAST)
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    text = f"{times.to_text(local)[:-1]}{finer}{sign}{hours:02d}:{rest:02d}"
    assert times.to_ms(text) == ms


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-20",
        "2026-11-20T18:00Z",
        "2026-11-20T18:00:00",
        "2026-11-20 18:00:00.123Z",
        "2026-11-20T18:00:00.123Z\n",
        "2026-11-20T18:00:00+0200",
        "2026-11-20T18:00:00+24:00",
        # Days, hours and leap seconds that there are not.
        "2026-02-29T18:00:00.123Z",
        "2026-11-20T24:00:00.000Z",
        "2026-11-20T18:00:61Z",
        "2016-12-30T23:59:60Z",
        "2016-12-31T23:59:60+02:00",
        # Before the first year and after the last.
        "0000-01-01T00:00:00.000Z",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "\uff12026-11-20T18:00:00.123Z",
    ],
)
def test_anything_else_is_refused_with_examples(text: str) -> None:
    says = (
        "'since' is not a time of RFC 3339; "
        "write it like 2026-11-20T18:00:00.123Z or 2026-11-20T20:00:00+02:00."
    )
    with pytest.raises(BadInput) as refused:
        times.to_ms(text, field="since")
    assert refused.value.sentence == says


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with pytest.raises(BadInput):
        times.to_ms(text)

"""Cursors: the service reads back exactly the cursors that it writes."""

import base64
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import contract, cursor
from fanfold.cursor import HASH_BYTES, MAX_SEEN, Cursor
from fanfold.errors import BadInput
from fanfold.ids import ref_id_for

LONGEST = "2026-11-20T18:00:00.123Z#" + "r" * contract.MAX_ID_CHARS
positions = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=len(LONGEST))
hashes = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)


def anything(_position: str) -> bool:
    return True


def spelt(content: bytes) -> str:
    return "3" + base64.urlsafe_b64encode(content).decode().rstrip("=")


@st.composite
def cursors(draw: st.DrawFn) -> Cursor:
    low, position = sorted((draw(positions), draw(positions.filter(bool))))
    return Cursor(position, low or position, tuple(draw(st.lists(hashes, max_size=MAX_SEEN))))


@given(cursors())
def test_a_decoded_cursor_is_what_was_encoded(written: Cursor) -> None:
    text = cursor.encode(written)
    assert cursor.decode(text, is_position=anything) == written
    assert text.isascii()
    assert not set(text) & set("+/=&?# %")  # it goes into an address as it is


def test_the_longest_cursor_is_within_the_limit() -> None:
    longest = Cursor(LONGEST, LONGEST[:-1] + "q", (b"\n\xff\n",) * MAX_SEEN)
    text = cursor.encode(longest)
    assert len(text) == 612 < contract.MAX_CURSOR_CHARS
    assert cursor.decode(text, is_position=anything) == longest


@given(st.binary(max_size=400))
def test_any_bytes_behind_the_version_are_refused_or_written_the_same(packed: bytes) -> None:
    text = spelt(packed)
    try:
        read = cursor.decode(text, is_position=anything)
    except BadInput:
        return
    assert cursor.encode(read) == text
    assert read.low <= read.position


@given(cursors(), st.booleans())
def test_a_cursor_with_an_invalid_position_is_refused(written: Cursor, is_low: bool) -> None:
    wrong = written.low if is_low else written.position
    with pytest.raises(BadInput, match="take 'next' or 'previous' from the last answer unchanged"):
        cursor.decode(cursor.encode(written), is_position=lambda each: each != wrong)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2YQoK",  # another version
        "3YQoK=",  # padded
        "3YWIKCh",  # bits left over
        "3YQoK!",
        "3\ud800",
        "3" + "YWRh" * 160,  # 641 characters
        spelt(b"a"),
        spelt(b"a\n"),
        spelt(b"a\na\n"),  # a low mark at the position is left out
        spelt(b"a\nb\n"),  # above the position
        spelt(b"a\n\xe9\n"),
        spelt(b"a\n\n1234"),  # a third of a hash
        spelt(b"a\n\n" + b"123" * (MAX_SEEN + 1)),
    ],
)
def test_a_cursor_that_the_service_did_not_write_is_refused(text: str) -> None:
    assert cursor.decode("3YQoK", is_position=anything) == Cursor.at("a")
    with pytest.raises(BadInput):
        cursor.decode(text, is_position=anything)


def test_keys_of_one_millisecond_have_different_hashes() -> None:
    keys = [f"2026-11-20T18:00:00.123Z#post-{letter}" for letter in "abcdefghijklmnop"]
    assert len({cursor.hashed(key) for key in keys}) == len(keys)


def test_two_keys_have_one_hash_no_more_often_than_three_bytes_allow() -> None:
    keys = [f"2026-11-20T18:00:00.123Z#{ref_id_for('ada', str(n))}" for n in range(20_000)]
    pairs = sum(n * (n - 1) // 2 for n in Counter(map(cursor.hashed, keys)).values())
    assert pairs <= 24  # 12 of 200 million are expected

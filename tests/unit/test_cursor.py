"""Cursors: the service reads back exactly the cursors that it writes, and those of version 1."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import contract, cursor
from fanfold.cursor import HASH_BYTES, MAX_SEEN, Cursor
from fanfold.errors import BadInput

LONGEST = "2026-11-20T18:00:00.123Z#" + "r" * contract.MAX_ID_CHARS
positions = st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=len(LONGEST))
hashes = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)


def anything(_position: str) -> bool:
    return True


def version_1(position: bytes) -> str:
    return "1" + base64.urlsafe_b64encode(position).decode().rstrip("=")


def version_2(content: bytes) -> str:
    return "2" + base64.urlsafe_b64encode(content).decode().rstrip("=")


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
    longest = Cursor(LONGEST, LONGEST[:-1] + "q", (b"\n\xff",) * MAX_SEEN)
    text = cursor.encode(longest)
    assert len(text) == 545 < contract.MAX_CURSOR_CHARS
    assert cursor.decode(text, is_position=anything) == longest


@given(positions)
def test_a_cursor_of_version_1_remembers_nothing(position: str) -> None:
    text = version_1(position.encode())
    assert cursor.decode(text, is_position=anything) == Cursor(position, position, ())


@given(st.text())
def test_any_text_is_refused_or_is_a_cursor_of_the_service(text: str) -> None:
    try:
        read = cursor.decode(text, is_position=anything)
    except BadInput:
        return
    assert text in (cursor.encode(read), version_1(read.position.encode()))


@given(st.binary(max_size=200))
def test_any_bytes_behind_version_1_are_refused_or_the_position(packed: bytes) -> None:
    text = version_1(packed)
    try:
        read = cursor.decode(text, is_position=anything)
    except BadInput:
        assert not packed.isascii()
    else:
        assert read.position.encode() == packed


@given(st.binary(max_size=400))
def test_any_bytes_behind_version_2_are_refused_or_written_the_same(packed: bytes) -> None:
    text = version_2(packed)
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
        "0YWRh",  # another version
        "3YWRh",
        "YWRh",
        "1YWRh=",  # padded
        "1YWRhYg==",
        "1YWRi\n",
        "1YWR",  # bits left over
        "1YQ1",
        "1YWRh!",
        "1+/8",
        "1YW Rh",
        "1w6Q",  # not ASCII inside
        "1é",
        "1\ud800",
        "1" + "YWRh" * 160,  # 641 characters
        version_2(b"a"),
        version_2(b"a\n"),
        version_2(b"a\na\n"),  # a low mark at the position is left out
        version_2(b"a\nb\n"),  # above the position
        version_2(b"a\n\xe9\n"),
        version_2(b"a\n\n1"),  # half a hash
        version_2(b"a\n\n" + b"12" * (MAX_SEEN + 1)),
    ],
)
def test_a_cursor_that_the_service_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        cursor.decode(text, is_position=anything)


def test_keys_of_one_millisecond_have_different_hashes() -> None:
    keys = [f"2026-11-20T18:00:00.123Z#post-{letter}" for letter in "abcdefghijklmnop"]
    assert len({cursor.hashed(key) for key in keys}) == len(keys)

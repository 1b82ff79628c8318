"""Cursors: the service reads back exactly the cursors that it writes."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import contract, cursor
from fanfold.errors import BadInput

ascii_positions = st.text(st.characters(codec="ascii"), max_size=153)


def anything(_position: str) -> bool:
    return True


@given(ascii_positions)
def test_a_decoded_cursor_is_its_position(position: str) -> None:
    written = cursor.encode(position)
    assert cursor.decode(written, is_position=anything) == position
    assert len(written) <= contract.MAX_CURSOR_CHARS
    assert written.isascii()
    assert not set(written) & set("+/=&?# %")  # it goes into an address as it is


@given(st.text())
def test_any_text_is_refused_or_is_a_cursor_of_the_service(text: str) -> None:
    try:
        position = cursor.decode(text, is_position=anything)
    except BadInput:
        return
    assert cursor.encode(position) == text


@given(st.binary(max_size=200))
def test_any_bytes_behind_the_version_are_refused_or_the_position(packed: bytes) -> None:
    text = "1" + base64.urlsafe_b64encode(packed).decode().rstrip("=")
    try:
        position = cursor.decode(text, is_position=anything)
    except BadInput:
        assert not packed.isascii() or len(text) > contract.MAX_CURSOR_CHARS
    else:
        assert position.encode() == packed


@given(ascii_positions)
def test_a_cursor_with_an_invalid_position_is_refused(position: str) -> None:
    with pytest.raises(BadInput, match="take 'next' from the last answer unchanged"):
        cursor.decode(cursor.encode(position), is_position=lambda _: False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0YWRh",  # another version
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
        "1" + "YWRh" * 64,  # 257 characters
    ],
)
def test_a_cursor_that_the_service_did_not_write_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        cursor.decode(text, is_position=anything)

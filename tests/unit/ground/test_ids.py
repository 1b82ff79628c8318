"""Ids, and the keys that contain them."""

import string
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import contract, ids, times
from fanfold.errors import BadInput
from fanfold.follows import ring

ALPHABET = string.ascii_letters + string.digits + "_.:|@+=-"
IN_PATHS = (".", "..")  # which an address means as directories
valid_ids = st.text(ALPHABET, min_size=1, max_size=128).filter(lambda text: text not in IN_PATHS)
instants = st.integers(0, 253_402_300_799_999)  # to the end of the year 9999


@given(valid_ids)
def test_every_text_of_the_alphabet_is_an_id(text: str) -> None:
    assert ids.is_id(text)
    assert ids.check_id(text, field="ref_id") == text


@given(st.text())
def test_any_other_text_is_not_an_id(text: str) -> None:
    is_spelled = 1 <= len(text) <= 128 and set(text) <= set(ALPHABET)
    assert ids.is_id(text) is (is_spelled and text not in IN_PATHS)


@pytest.mark.parametrize(
    "text", ["", "..", "a#b", "a b", "a/b", "a\n", "\na", "ä", "٣", "a\x00", "\ud800", "x" * 129]
)
def test_the_sentence_names_the_field_and_what_is_allowed(text: str) -> None:
    with pytest.raises(BadInput, match=r"^'publisher_id' is not a valid id; use 1 to 128"):
        ids.check_id(text, field="publisher_id")


@given(instants, valid_ids)
def test_a_sort_key_can_be_split_again(ms: int, ref_id: str) -> None:
    key = ids.sort_key(times.to_text(ms), ref_id)
    assert ids.split_sort_key(key) == (times.to_text(ms), ref_id)
    assert ids.is_sort_key(key)


@given(instants, valid_ids, instants, valid_ids)
def test_sort_keys_sort_by_time(
    first_ms: int, first_id: str, second_ms: int, second_id: str
) -> None:
    first = ids.sort_key(times.to_text(first_ms), first_id)
    second = ids.sort_key(times.to_text(second_ms), second_id)
    assert (first < second) == ((first_ms, first_id) < (second_ms, second_id))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-20T18:00:00.123Z",
        "2026-11-20T18:00:00.123Z#",
        "2026-11-20T18:00:00.123Z#a#b",
        "2026-11-20T18:00:00.123Z#a\n",
        "2026-13-20T18:00:00.123Z#a",
        "2026-11-20T18:00:00Z#a",
        "2026-11-20T18:00:00.123+#a",
        "2016-12-31T23:59:60.123Z#a",
    ],
)
def test_a_malformed_sort_key_is_recognized(text: str) -> None:
    assert not ids.is_sort_key(text)


keys = st.from_regex(contract.IDEMPOTENCY_KEY_PATTERN, fullmatch=True)


@given(valid_ids, keys)
def test_an_idempotency_key_always_gives_the_same_valid_ref_id(publisher: str, key: str) -> None:
    ref_id = ids.ref_id_for(publisher, key)
    assert ids.is_id(ref_id)
    assert ids.ref_id_for(publisher, key) == ref_id


def test_two_pairs_of_publisher_and_key_never_share_a_ref_id() -> None:
    publishers, chosen = (
        ["".join(text) for size in (1, 2, 3) for text in product(letters, repeat=size)]
        for letters in ("a:", "a:#")
    )
    found = {ids.ref_id_for(publisher, key) for publisher in publishers for key in chosen}
    assert len(found) == len(publishers) * len(chosen)


@pytest.mark.parametrize("key", ["", "k" * 257, "é", "a\n"])
def test_an_idempotency_key_out_of_bounds_is_refused(key: str) -> None:
    with pytest.raises(BadInput, match="Idempotency-Key header must have 1 to 256"):
        ids.ref_id_for("ada", key)


@given(valid_ids)
def test_an_edge_contains_its_follower_and_position(follower: str) -> None:
    edge = ring.edge(follower)
    assert ring.follower_of(edge) == follower
    assert ring.position_of(edge) == ring.position(follower)
    assert ring.START <= ring.position(follower) < edge < ring.END

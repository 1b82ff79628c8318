"""The union of several ranges is as one range with the keys of all."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from fanfold import times
from fanfold.channels import parts
from fanfold.channels.head import Channel
from fanfold.channels.parts import Part
from fanfold.channels.windows import MOST_WINDOWS, WINDOW, Window, Windows
from fanfold.timeline.entries import Entry
from fanfold.timeline.page_reads import Range

ADA = Channel("ada", version=1)
SINCE = times.to_text(0)


def key(number: int) -> str:
    return f"{times.to_text(number)}#post"


def entries(keys: Sequence[str]) -> list[Entry]:
    return [Entry(each, "ada") for each in keys]


def query(
    keys: set[str], within: Range, start: str | None, limit: int, *, is_up: bool
) -> tuple[list[Entry], bool]:
    """As DynamoDB answers it: there may be more where there are as many as were wanted."""
    until = within.until or "~"
    found = [
        each
        for each in sorted(keys, reverse=not is_up)
        if within.since <= each <= until
        and (start is None or (each > start if is_up else each < start))
    ]
    return entries(found[:limit]), len(found) >= limit


def window(random: Random, keys: set[str]) -> Window:
    """The newest of these, in a window of any size."""
    newest, has_more = query(keys, Range(SINCE), None, random.choice((1, 3, 10)), is_up=False)
    return Windows().keep(ADA, newest, has_more, since=SINCE)


@pytest.mark.parametrize("is_up", [False, True])
def test_a_union_is_as_one_range_whatever_its_parts_and_windows_hold(is_up: bool) -> None:
    for seed in range(200):
        unite(Random(f"{seed}"), is_up=is_up)


def unite(random: Random, *, is_up: bool) -> None:
    span = random.choice((8, 60))
    sets = [
        {key(random.randrange(1, span)) for _ in range(random.choice((0, 1, 5, 30)))}
        for _ in range(random.choice((1, 2, 6)))
    ]
    everything = sorted(set().union(*sets), reverse=not is_up)
    low, high = sorted(random.sample(range(span), 2))
    within = random.choice((Range(SINCE), Range(times.to_text(low), times.to_text(high))))
    inside = [each for each in everything if within.since <= each <= (within.until or "~")]
    start = random.choice([None, *inside])
    wanted = [each for each in inside if start is None or (each > start if is_up else each < start)]
    limit = random.choice((1, 2, 7, 40))
    known: list[Part[Entry]] = []
    for place, keys in enumerate(sets):
        if not place:
            known.append(parts.part(*query(keys, within, start, limit, is_up=is_up), is_up=is_up))
        elif random.random() < 0.2:
            known.append(parts.unknown(is_up=is_up))
        elif is_up:
            known.append(window(random, keys).oldest(within, after=start))
        else:
            known.append(window(random, keys).newest(within, before=start))
    left_out = random.choice((0, 0, 1))
    short, last = parts.short(known, limit, is_up=is_up)
    for place in short[: len(short) - left_out]:
        assert place  # a range that was read from its beginning is known far enough
        reach = (
            within._replace(until=last or within.until)
            if is_up
            else within._replace(since=last or within.since)
        )
        found, has_more = query(sets[place], reach, start, limit, is_up=is_up)
        known[place] = parts.part(found, has_more, is_up=is_up, read_to=last)
    merged, goes_on = parts.merged(known, limit, is_up=is_up)
    shown = [each.sort_key for each in merged]
    if left_out and short:
        assert shown == wanted[: len(shown)]
        assert goes_on
    else:
        assert shown == wanted[:limit]
        assert goes_on or len(wanted) <= limit


def test_only_those_are_read_whose_windows_end_above_the_last_entry_of_the_page() -> None:
    ends, needless = entries([key(9), key(5)]), entries([key(8), key(3)])
    known = [parts.part(each, True, is_up=False) for each in (ends, needless)]
    assert parts.short(known, 2, is_up=False) == ([], key(8))
    assert parts.short(known, 3, is_up=False) == ([], key(5))
    assert parts.short(known, 4, is_up=False) == ([0], key(3))
    assert parts.short(known, 5, is_up=False) == ([0, 1], None)


def test_a_window_is_good_while_the_head_has_its_tag() -> None:
    windows = Windows()
    kept = windows.keep(ADA, entries([key(2), key(1)]), False, since=SINCE)
    assert windows.of(ADA) == kept
    assert windows.of(ADA._replace(seq=1)) is None
    assert windows.of(ADA._replace(version=2)) is None
    assert windows.of(ADA._replace(until=99, followers=7)) == kept


@pytest.mark.parametrize(
    ("posted", "expected"), [(9, [3, 5, 9]), (4, [3, 4, 5]), (5, [3, 5]), (1, [3, 5])]
)
def test_a_window_that_is_one_post_behind_takes_the_last_post_of_the_head(
    posted: int, expected: list[int]
) -> None:
    windows = Windows()
    windows.keep(ADA, entries([key(5), key(3)]), True, since=SINCE)
    now = ADA._replace(seq=1, last=key(posted))
    window = windows.of(now)
    assert window
    assert list(window.keys) == list(map(key, expected))
    assert [each.sort_key for each in window.entries] == window.keys
    assert windows.of(now) == window


def test_a_window_that_is_never_read_again_stays_bounded() -> None:
    windows = Windows()
    windows.keep(ADA, [], False, since=SINCE)
    for seq in range(1, 3 * WINDOW):
        window = windows.of(ADA._replace(seq=seq, last=key(seq)))
    assert window
    assert len(window.keys) == len(window.entries) <= 2 * WINDOW
    assert window.end == window.keys[0]
    assert window.keys[-1] == key(3 * WINDOW - 1)


def test_a_window_that_lacks_what_was_found_is_forgotten() -> None:
    windows = Windows()
    windows.keep(ADA, entries([key(5), key(3)]), True, since=SINCE)
    windows.compare(ADA, entries([key(5), key(3), key(1)]))
    assert windows.of(ADA)
    windows.compare(ADA, entries([key(4)]))
    assert windows.of(ADA) is None
    windows.compare(ADA, entries([key(4)]))


def test_a_container_keeps_a_bounded_number_of_windows() -> None:
    windows = Windows()
    channels = [Channel(f"p{number}", version=1) for number in range(MOST_WINDOWS + 1)]
    for each in (channels[0], *channels):
        windows.keep(each, [], False, since=SINCE)
    assert [each for each in channels if windows.of(each) is None] == channels[:1]
    windows.forget()
    assert windows.of(channels[1]) is None

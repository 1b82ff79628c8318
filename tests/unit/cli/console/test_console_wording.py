"""What the page says of a state, and of two states after each other."""

from dataclasses import replace
from typing import Any

import pytest

from fanfold_cli.console import wording
from fanfold_cli.console.views import (
    BUSY,
    CALM,
    CELLS,
    GOOD,
    HURT,
    Hurting,
    ReaderView,
    Ring,
    State,
    Verdict,
    Worker,
)
from fanfold_cli.deliveries.pauses import Pause, Paused, PausedLane
from fanfold_cli.health.verdict import Depth

QUIET = State(where="local engine", read_at=100.0, every_seconds=1.0, queues={"bulk": Depth()})
RING = Ring(
    ref_id="post-1",
    publisher_id="ada",
    state="delivering",
    followers=10_000,
    delivered=2_500,
    segments=4,
    pending=(1, 2, 3),
    accepted_at=90.0,
    lag_seconds=None,
    have=(1.0,) * (CELLS // 4) + (0.0,) * (3 * CELLS // 4),
)
COMPLETE = replace(RING, state="complete", pending=(), delivered=10_000, lag_seconds=12.4)
IN_CHANNEL = replace(COMPLETE, by="channel", segments=0)
OPEN = replace(QUIET, ring=RING, open=1)
STALLED = replace(OPEN, ring=replace(RING, state="stalled"))
DEAD = replace(QUIET, queues={"bulk": Depth(dead=1)})
GONE = "A worker is gone, its work is not"
HURTING = replace(OPEN, hurting=Hurting(shown_after=6))
THROTTLED = replace(HURTING, hurting=Hurting(throttled=True))
QUEUED = replace(OPEN, ring=replace(RING, state="queued", segments=0, pending=()))
LAST = replace(OPEN, ring=replace(RING, pending=(3,)))
BEGUN = replace(RING, have=(1.0,) * (CELLS // 4) + (0.5,) + (0.0,) * (3 * CELLS // 4 - 1))


def busy(segment: int) -> Worker:
    return Worker(number=1, state="busy", ref_id="post-1", segment=segment, segments=4)


def verdict(**changes: Any) -> Verdict:
    found = {"expected": 10, "delivered": 10, "unexpected": 0, "twice": 0, "wrong_readers": 0}
    return Verdict(**{**found, "sentence": "demo: delivered", **changes})


def test_a_quiet_page_says_why_a_small_post_does_not_show_unless_its_reader_is_there() -> None:
    assert "--reader" in wording.headline(QUIET).text
    waiting = replace(QUIET, queues={"bulk": Depth(waiting=1)})
    for state in (replace(QUIET, readers=(ReaderView(user="bob"),)), waiting, DEAD):
        assert "--reader" not in wording.headline(state).text


@pytest.mark.parametrize(
    ("state", "mood", "title"),
    [
        (QUIET, CALM, "Nothing is being delivered"),
        (OPEN, BUSY, "Delivering"),
        (replace(QUIET, ring=COMPLETE), GOOD, "10,000 followers have it in 12 s"),
        (replace(QUIET, ring=replace(COMPLETE, delivered=1)), GOOD, "1 follower has it in 12 s"),
        (
            replace(QUIET, ring=IN_CHANNEL),
            GOOD,
            "It is in the channel in 12 s, read by about 10,000 followers",
        ),
        (replace(QUIET, ring=replace(RING, state="abandoned")), HURT, "The delivery was abandoned"),
        (replace(OPEN, stalled=2), HURT, "2 deliveries have stalled"),
        (replace(OPEN, still_seconds=7.0), HURT, "Nothing moves, nothing is lost"),
        (replace(OPEN, still_seconds=5.0), BUSY, "Delivering"),
        (HURTING, BUSY, "Delivering"),
        (replace(HURTING, workers=(Worker(number=3, state="killed"),)), HURT, GONE),
        (replace(HURTING, ring=BEGUN), HURT, GONE),
        (replace(HURTING, ring=BEGUN, workers=(busy(1),)), BUSY, "Delivering"),
        (THROTTLED, HURT, "The table refuses, the workers slow down"),
        (replace(HURTING, hurting=Hurting(twice=True)), HURT, "Every message comes twice"),
        (replace(HURTING, verdict=verdict()), GOOD, "10 of 10 delivered, 0 lost, 0 seen twice"),
        (
            replace(HURTING, verdict=verdict(delivered=9, unexpected=2)),
            HURT,
            "9 of 10 delivered, 1 lost, 0 seen twice, 2 otherwise wrong",
        ),
    ],
)
def test_the_headline_is_the_one_thing_to_know(state: State, mood: str, title: str) -> None:
    found = wording.headline(state)
    assert (found.mood, found.title) == (mood, title)


def test_a_hidden_message_is_named_with_the_time_that_it_may_take() -> None:
    state = replace(OPEN, still_seconds=9.0, queues={"bulk": Depth(at_work=2)})
    text = wording.headline(state).text
    assert text.startswith("2 bulk messages failed or lost their worker.")
    assert text.endswith("within 6 min.")
    # But what is delivered is good, and owed only while there are messages.
    done = replace(QUIET, ring=COMPLETE)
    copied = replace(done, hurting=Hurting(twice=True), queues=state.queues, still_seconds=60.0)
    assert wording.headline(copied).mood == GOOD
    assert wording.headline(done).text == "Nothing is owed to anybody."
    waits = replace(done, queues={"publish": Depth(waiting=1)})
    assert wording.headline(waits).text == "1 message in the queues."


def test_a_pause_is_named_with_what_to_do_and_no_message_is_called_hidden() -> None:
    note = Pause("ann", "2026-11-20T18:00:00.123Z", "", "deploy")
    paused = Paused((PausedLane("express", (note,)), PausedLane("bulk", ())))
    still = replace(OPEN, still_seconds=9.0)
    text = wording.headline(replace(still, paused=paused)).text
    assert text.startswith(f"express is paused {note.told(0)}. bulk is paused; nobody has noted")
    assert text.endswith("only if the pause is yours or its time is over.")
    assert "hidden" not in text
    assert text in wording.headline(replace(QUIET, paused=paused)).text
    unread = wording.headline(replace(still, paused=Paused(failure="AccessDenied"))).text
    assert "Messages wait for a worker. Whether lanes are paused could not be read" in unread


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (QUIET, OPEN, ["The post of ada was accepted."]),
        (QUEUED, OPEN, ["The post of ada is cut into 4 segments."]),
        (OPEN, OPEN, []),
        (OPEN, LAST, ["2 segments of the post of ada done; 1 of 4 are owed."]),
        (OPEN, replace(QUIET, ring=COMPLETE), ["10,000 followers have the post of ada in 12 s."]),
        (
            OPEN,
            replace(QUIET, ring=IN_CHANNEL),
            ["The post of ada is in the channel in 12 s, read by about 10,000 followers."],
        ),
        (OPEN, STALLED, ["The delivery of the post of ada has stalled."]),
        (STALLED, OPEN, ["The delivery of the post of ada goes on."]),
        (QUIET, replace(QUIET, ring=COMPLETE), []),  # of which nobody saw the beginning
        (QUIET, DEAD, ["1 message has become dead letters."]),
        (DEAD, QUIET, ["1 dead letter is gone from the queues."]),
        (QUIET, replace(OPEN, ring=None, others=(replace(RING, is_largest=False),)), []),
    ],
)
def test_each_event_is_reported_once(before: State, after: State, said: list[str]) -> None:
    assert [text for _, _, text in wording.events(before, after)] == said

"""A fan-out as the ring shows it, which one it shows, and what a refresh costs."""

from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from urllib3.exceptions import ProtocolError

from fanfold import clock, names
from fanfold.fanout.backlog import Resume
from fanfold.fanout.row import Fanout
from fanfold.follows import ring
from fanfold_cli import aws
from fanfold_cli.console import rings, watching
from fanfold_cli.console.stack_reading import StackReading
from fanfold_cli.console.views import CELLS, State
from fanfold_cli.console.watching import Refreshing
from fanfold_cli.stack import Deployment

AT = "2026-11-20T18:00:00.123Z"
LATER = "2026-11-20T18:05:00.123Z"


def fanout(ref_id: str = "post-1", **values: Any) -> Fanout:
    row = {"fanout_id": ref_id, "publisher_id": "ada", "sort_key": f"{AT}#{ref_id}"}
    return Fanout(**{**row, "accepted_at": AT, "expires_at": 0, **values})


def full(row: Fanout) -> list[int]:
    """The cells that the ledger knows to be delivered."""
    return [cell for cell, share in enumerate(rings.view(row).have) if share == 1]


def planned(segments: int, pending: set[int], **values: Any) -> Fanout:
    return fanout(
        state="delivering", segments=segments, pending=frozenset(pending), followers=100, **values
    )


@pytest.mark.parametrize(
    ("row", "cells"),
    [
        (fanout(), []),
        (fanout(state="complete"), list(range(CELLS))),
        (planned(1, {0}), []),
        (planned(4, {0, 1, 3}), list(range(128, 192))),
        (planned(4, set()), list(range(CELLS))),
        (planned(1024, {0, 1, 2, 3, 5}), list(range(2, CELLS))),
        # A segment that was handed back is shown as far as it came.
        *(
            (planned(4, {0, 1, 2, 3}, resume={1: Resume(position, 10)}), list(range(64, end)))
            for position, end in (
                ("4000000000000000", 64),
                ("6000000000000000", 96),
                ("6000000000000000~", 96),
                (ring.behind_all("8000000000000000"), 128),
            )
        ),
    ],
)
def test_the_ring_has_what_the_ledger_says_is_done(row: Fanout, cells: list[int]) -> None:
    assert full(row) == cells
    half = planned(512, set(range(0, 512, 2)))
    assert set(rings.view(half).have) == {0.5}


def test_a_post_in_a_channel_fills_the_ring_by_one_entry() -> None:
    row = fanout(state="complete", by="channel", followers=9_000, delivered=9_000)
    ring = rings.view(row)
    assert set(ring.have) == {1.0}
    assert (ring.by, ring.share, ring.delivered, ring.entries) == ("channel", 1.0, 9_000, 1)
    assert rings.view(fanout(state="complete", delivered=9)).entries == 9


def reading() -> StackReading:
    return StackReading(Deployment("eu-central-1", None, {}))


SMALL = fanout("small", state="delivering", followers=9)
LARGE = fanout("large", state="delivering", followers=900)


def test_the_ring_shows_the_largest_delivery_until_it_has_ended() -> None:
    source = reading()
    assert source.choose([SMALL]) == SMALL
    assert source.choose([LARGE, SMALL]) == LARGE
    assert source.choose([replace(LARGE, followers=1000), SMALL]).fanout_id == "large"  # type: ignore[union-attr]
    done = replace(LARGE, state="complete", completed_at=AT)
    assert source.choose([done, replace(SMALL, state="complete")]) == done
    # Then it goes on to what was published later, and leaves a post whose row has expired.
    new = replace(SMALL, state="complete", accepted_at=LATER)
    assert source.choose([new, done]) == new
    assert source.choose([done]) == done
    assert source.choose([]) is None


ARN = "arn:aws:cloudformation:eu-central-1:123456789012:stack/Fanfold-prod/1"


def test_a_reader_waits_three_seconds_for_an_api_that_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    down = Mock(**{"request.side_effect": ProtocolError("The connection was closed.")})
    slept: list[float] = []
    monkeypatch.setattr(clock, "monotonic", lambda: sum(slept))
    monkeypatch.setattr(clock, "sleep", slept.append)
    monkeypatch.setattr(Deployment, "token", lambda *_: "token")
    monkeypatch.setattr("fanfold_client.client.pool_for", lambda _: down)
    deployment = Deployment("eu-central-1", None, {names.API_URL_OUTPUT: "https://api.example"})
    reader = watching.reader_of(deployment, "bob")
    reader.look()
    assert "got no answer" in reader.view().failure
    assert 0 < sum(slept) < 3


@pytest.mark.parametrize("described", [{"EnableTerminationProtection": True}, {}])
def test_the_page_names_stack_account_and_region_and_knows_one_that_is_protected(
    monkeypatch: pytest.MonkeyPatch, described: dict[str, bool]
) -> None:
    found = {"StackId": ARN, "StackName": "Fanfold-prod", **described}
    cloudformation = Mock(**{"describe_stacks.return_value": {"Stacks": [found]}})
    monkeypatch.setattr(aws, "client", lambda *_: cloudformation)
    for given in ("Fanfold-prod", ARN):
        state = watching.first_state(Deployment.on_aws(given), may_operate=False)
        assert state.where == "Fanfold-prod (account 123456789012, eu-central-1)"
        assert state.is_protected is bool(described)


def test_a_stack_on_aws_is_read_every_five_seconds_at_most_however_many_pages_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, reads = [100.0], list[float]()
    monotonic = Mock(monotonic=lambda: now[0], now_ms=lambda: int(1000 * now[0]))
    monkeypatch.setattr(watching, "clock", monotonic)

    def read(before: State) -> State:
        reads.append(now[0])
        return before

    on_aws = watching.first_state(Deployment("eu-central-1", None, {}), may_operate=False)
    assert on_aws.every_seconds == 5.0
    shown = Refreshing(on_aws, read)
    for _ in range(100):
        shown.content()
        now[0] += 0.125
    assert reads == [100.0, 105.0, 110.0]

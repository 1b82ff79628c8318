"""What a user may know of a publisher's privacy, by the choices of the publisher alone.

Pure, as `follows`. A choice is a request, in which "follow" means "go private".
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from proof.simulation.oracle.follows import OVERTAKEN_MS, Asked, Verb, surely

# A function remembers a privacy for five seconds, by a timer that ignores jumps of 0.1 s.
REMEMBERED_MS = 5_000 + 100 + 1
APPROVALS = {Verb.APPROVE, Verb.APPROVED}
BLOCKS = {Verb.BLOCK, Verb.UNBLOCK}
# The choice of a stage where publishers are private by default, of before all requests.
BY_DEFAULT = Asked(True, 0.0, ended=0.0)


def with_privacy(
    requests: Sequence[Asked], choices: Sequence[Asked], *, skew_ms: float, of_reads: bool
) -> list[Asked]:
    """The requests of a relation, told what the publisher is, and the openings of those that wait.

    Deliveries see an opening once its edge is put, perhaps when the publisher is private again.
    """
    told = [
        replace(request, is_private=privacy(requests, choices, request, skew_ms=skew_ms))
        if request.verb is Verb.FOLLOW and not request.is_import
        else request
        for request in requests
    ]
    opened = [
        Asked.of(Verb.OPEN, begun, ended=ended if of_reads else math.inf, is_due=False)
        for begun, ended in public(choices, skew_ms=skew_ms)
    ]
    return [*told, *opened]


def privacy(
    requests: Sequence[Asked], choices: Sequence[Asked], during: Asked, *, skew_ms: float
) -> bool | None:
    """Whether a publisher is surely private, for what looks at it then; False if surely public."""
    begun = max((during.begun - REMEMBERED_MS, *_stamps(requests, during.begun, skew_ms)))
    return surely(choices, begun, during.ended, skew_ms=skew_ms)


def _stamps(requests: Sequence[Asked], before: float, skew_ms: float) -> Iterator[float]:
    """When a privacy was surely read, which no function may forget in this relation."""
    for each in requests:
        if each.is_message or not each.is_due or each.ended >= before:
            continue
        others = [other for other in requests if other is not each and other.begun <= each.ended]
        earlier = {other.verb for other in others}
        later = {
            other.verb
            for other in others
            if other.stamp >= each.stamp + OVERTAKEN_MS - 2 * skew_ms - len(requests)
        }
        if each.verb is Verb.REMOVE and not later & APPROVALS:
            yield each.begun
        # The first block of all, which nothing has overtaken, and its end.
        if each.verb is Verb.BLOCK and not later & BLOCKS and not earlier & {Verb.BLOCK}:
            yield each.begun
        if each.verb is Verb.UNBLOCK:
            blocks = [other for other in others if other.verb in BLOCKS]
            if len(blocks) == 1 and blocks[0].verb is Verb.BLOCK:
                (block,) = blocks
                if not block.is_message and block.is_due and block.ended < each.begun:
                    yield each.begun


def public(choices: Sequence[Asked], *, skew_ms: float) -> Iterator[tuple[float, float]]:
    """The spans in which a publisher may be public."""
    first = 0.0 if BY_DEFAULT in choices else -math.inf
    moments = sorted({first, math.inf, *(at for each in choices for at in _ends(each))})
    begun = math.nan
    for since, until in pairwise(moments):
        # Within whole milliseconds: at either end, a choice may be about to take effect.
        if surely(choices, since + 0.25, until - 0.25, skew_ms=skew_ms) is not True:
            begun = since if math.isnan(begun) else begun
        elif not math.isnan(begun):
            yield begun, since
            begun = math.nan
    if not math.isnan(begun):
        yield begun, math.inf


def _ends(choice: Asked) -> tuple[float, float]:
    return choice.begun, choice.ended

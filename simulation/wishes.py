"""What wishes to follow or unfollow may do, said without the product: an oracle for one relation.

Times are epoch milliseconds of one true clock; the stamps of requests may be off by a known skew.

* A request takes effect once while it is being answered, or not at all if it was not answered.
* A message takes effect once after it was sent, or never, if a later wish was uttered. After the
  answer to a request that is surely later, it takes effect no more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Change = tuple[float, bool]  # when, and whether the user follows from then on


@dataclass(eq=False)
class Wish:
    """A request to follow or unfollow, or a message; without an answer it ends at infinity."""

    follows: bool
    begun: float  # received, or sent
    ended: float = math.inf
    is_message: bool = False
    is_due: bool = True  # false for a request without an answer, and for a dead letter
    is_import: bool = False  # it leaves a follow as it is, and earlier messages in effect

    def __str__(self) -> str:
        kind = "message" if self.is_message else "request" if self.is_due else "open request"
        return f"{kind} to {'follow' if self.follows else 'unfollow'} [{self.begun}, {self.ended}]"


def unexplained(
    changes: Sequence[Change], wishes: Sequence[Wish], *, skew_ms: float
) -> Iterator[str]:
    """Whatever contradicts the rules in the whole history of one relation, as sentences.

    `changes` alternate, and begin with a follow. Each is the only effect of one wish.
    """
    left = {wish: _end(wish, wishes, skew_ms) for wish in wishes}
    for at, follows in changes:
        # The one that ends first: whichever wishes are left can explain the most changes.
        able = [
            wish
            for wish, ended in left.items()
            if wish.follows is follows and wish.begun <= at <= ended
        ]
        if able:
            del left[min(able, key=left.__getitem__)]
        else:
            yield f"No wish explains the {'follow' if follows else 'unfollow'} at {at}."
    for wish in wishes:
        if wish.is_due and not _came_true(wish, changes) and not _is_late(wish, wishes, skew_ms):
            yield f"Nothing came of the {wish}."


def _end(wish: Wish, wishes: Sequence[Wish], skew_ms: float) -> float:
    """When the wish can have an effect no more."""
    if not wish.is_message:
        return wish.ended
    surely_later = (
        each.ended
        for each in wishes
        if not each.is_message
        and not each.is_import
        and each.is_due
        and each.begun > wish.begun + skew_ms
    )
    return min(surely_later, default=math.inf)


def _came_true(wish: Wish, changes: Sequence[Change]) -> bool:
    """Whether its state was that of the relation at any time between its begin and its end."""
    before = [follows for at, follows in changes if at < wish.begun]
    at_first = before[-1] if before else False
    return at_first is wish.follows or any(
        follows is wish.follows and wish.begun <= at <= wish.ended for at, follows in changes
    )


def _is_late(wish: Wish, wishes: Sequence[Wish], skew_ms: float) -> bool:
    return wish.is_message and any(
        each is not wish and each.begun >= wish.begun - skew_ms for each in wishes
    )

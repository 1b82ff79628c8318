"""The answers to requests."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold import contract
from fanfold.errors import TooManyRequests
from fanfold.settings import Settings
from proof.simulation.checks.evidence import Evidence

# Possible answers of each route, besides failures: clients keep to the contract and follow few. The
# checks of posts, edits and audiences judge whether 403, 404, 409, 410 and 422 had a reason.
ANSWERS = {
    contract.FOLLOW.key: {200},
    contract.UNFOLLOW.key: {204},
    contract.SHOW_FOLLOWING.key: {200, 404},
    contract.CHOOSE_PRIVACY.key: {200},
    contract.SHOW_PRIVACY.key: {200},
    contract.LIST_REQUESTS.key: {200},
    contract.APPROVE.key: {200, 404},
    contract.REMOVE.key: {204},
    contract.BLOCK.key: {204},
    contract.UNBLOCK.key: {204},
    contract.LIST_BLOCKED.key: {200},
    contract.LIST_FOLLOWING.key: {200},
    contract.PUBLISH_POST.key: {202, 410, 422},
    contract.READ_POST.key: {200, 404},
    contract.EDIT_POST.key: {200, 404, 409, 410},
    contract.RETRACT_POST.key: {204, 404},
    contract.SHOW_DELIVERY.key: {200, 404},
    contract.READ_TIMELINE.key: {200},
    contract.MUTE.key: {204, 409},
    contract.UNMUTE.key: {204, 409},  # if a later mute or unmute was answered first
    contract.LIST_MUTED.key: {200},
    contract.MOVE_MARKER.key: {200},
    contract.READ_MARKER.key: {200},
    contract.COUNT_UNREAD.key: {200},
    contract.READ_FEED.key: {200},
    contract.LIST_FOLLOWERS.key: {200, 403},
    contract.COUNT_FOLLOWERS.key: {200, 403},
}

# And where publishers decide who may follow them.
OF_AUDIENCES = {contract.FOLLOW.key: {202, 409}, contract.READ_FEED.key: {403}}

# Faults that fail no call.
HARMLESS = {"duplicated", "skewed"}
FAULT_OF_OURS = 500


def nobody_is_refused_without_reason(found: Evidence) -> Iterator[str]:
    """Requests are refused only for a reason, and fail only if a call failed.

    They fail with a 500 only if something was forbidden, invalid or gone.
    """
    _ = found.seen  # requests after the run count, too
    faults = found.world.faults.injected.keys()
    for (route, status), times in sorted(found.history.answers.items()):
        is_failure = status >= 500 or status == TooManyRequests.status
        more = OF_AUDIENCES.get(route, set()) if found.world.has_audiences else set()
        if not is_failure and status not in ANSWERS[route] | more:
            yield f"{route} was answered {status}, {times} times."
        if status == FAULT_OF_OURS and "troubled" not in faults:
            yield f"{route} failed with {status}, {times} times, and nothing was in the way."
        is_over_rate = status == TooManyRequests.status and route == contract.PUBLISH_POST.key
        if is_over_rate and found.world.rate.limit < Settings.publishes_per_minute:
            continue
        if is_failure and status != FAULT_OF_OURS and not faults - HARMLESS:
            yield f"{route} failed with {status}, {times} times, and no call had failed."

"""What requests are answered."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold import contract
from simulation.checks.evidence import Evidence

# What each route may answer, beside failures: its clients send no request that breaks the contract,
# and follow few. That 404, 410 and 422 had a reason is for the checks of posts.
ANSWERS = {
    contract.FOLLOW.key: {200, 204},
    contract.UNFOLLOW.key: {200, 204},
    contract.LIST_FOLLOWING.key: {200},
    contract.PUBLISH_POST.key: {202, 410, 422},
    contract.RETRACT_POST.key: {204, 404},
    contract.SHOW_DELIVERY.key: {200, 404},
    contract.READ_TIMELINE.key: {200},
}


def nobody_is_refused_without_reason(found: Evidence) -> Iterator[str]:
    """Every request is granted but for a reason of its own; none fails where nothing goes wrong."""
    world = found.world
    _ = found.seen  # what is asked for after the run counts too
    for (route, status), times in sorted(found.history.answers.items()):
        if status < 500 and status not in ANSWERS[route]:
            yield f"{route} was answered {status}, {times} times."
        if status >= 500 and not world.faults.injected:
            yield f"{route} failed with {status}, {times} times, and nothing went wrong."

"""What readers are shown."""

from __future__ import annotations

from collections.abc import Iterator

from simulation import requests
from simulation.checks.evidence import Evidence


def timelines_show_what_they_should(found: Evidence) -> Iterator[str]:
    """Read over HTTP, each post is shown once, newest first, and no retracted post is."""
    world, history = found.world, found.history
    gone = {each.subject for each in history.of("retract") if each.status == 204}
    gone |= world.observer.retracted.keys()
    shown: dict[str, list[str]] = {}

    def read_all() -> None:
        for user in sorted(history.users()):
            shown[user] = requests.read(world, user)

    world.clock.advance(60.0)  # the caches of QUERY expire
    world.run(lambda each: each.start_client("reader", read_all))
    for user, refs in shown.items():
        keys = [found.posts[ref]["sort_key"]["S"] for ref in refs if "sort_key" in found.posts[ref]]
        if keys != sorted(keys, reverse=True):
            yield f"{user} sees posts out of order: {keys}."
        if len(set(refs)) != len(refs):
            yield f"{user} sees a post twice: {refs}."
        if bad := gone & set(refs):
            yield f"{user} sees retracted posts: {bad}."
        due = {ref for owner, ref in found.entries if owner == user} - gone
        if missing := {ref for ref in due if not history.tried_to_retract(ref)} - set(refs):
            yield f"{user} has entries that are not shown: {missing}."

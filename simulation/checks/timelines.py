"""What readers are shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulation.checks.evidence import Evidence, Publish


def timelines_show_what_they_should(found: Evidence) -> Iterator[str]:
    """Read over HTTP, each post is shown once, newest first, and no retracted post is."""
    history = found.history
    gone = {each.subject for each in history.of("retract") if each.status == 204}
    gone |= found.world.observer.retracted.keys()
    for user, shown in found.seen.shown.items():
        keys = [(each["published_at"], each["ref_id"]) for each in shown]
        refs = [ref_id for _, ref_id in keys]
        if keys != sorted(keys, reverse=True):
            yield f"{user} sees posts out of order: {keys}."
        if len(set(refs)) != len(refs):
            yield f"{user} sees a post twice: {refs}."
        if bad := gone & set(refs):
            yield f"{user} sees retracted posts: {bad}."
        due = {ref for owner, ref in found.entries if owner == user} - gone
        if missing := {ref for ref in due if not history.tried_to_retract(ref)} - set(refs):
            yield f"{user} has entries that are not shown: {missing}."


def posts_are_shown_as_they_were_sent(found: Evidence) -> Iterator[str]:
    """Body, publisher and time of what readers see are those that the publisher sent."""
    for user, shown in found.seen.shown.items():
        for entry in shown:
            publish = found.publishes.get(entry["ref_id"])
            if publish is None:
                yield f"{user} is shown {entry}, which nobody has published."
            elif wrong := sorted(_wrong(entry, publish)):
                yield f"{user} is shown {entry}, with another {' and '.join(wrong)}."


def _wrong(entry: dict[str, Any], publish: Publish) -> Iterator[str]:
    accepted = [each for each in publish.operations if each.answer]
    if entry["publisher_id"] != publish.publisher:
        yield "publisher"
    if entry["body"] not in [each.content for each in accepted or publish.operations]:
        yield "body"
    # Nobody sends a time of their own, so it is that of the acceptance.
    if entry["published_at"] not in publish.accepted_at():
        yield "time"

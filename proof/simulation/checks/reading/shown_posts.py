"""Checks of shown posts: each once, in order, as sent, and not after a retraction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from fanfold.ids import split_sort_key
from proof.simulation.checks.evidence import Evidence, Publish
from proof.simulation.clients.history import Page

# This long after the answer to its retraction, a post may be shown (docs/api.md).
GONE_SECONDS = 5


def _readings(found: Evidence) -> list[list[Page]]:
    """The pages of all readings, during the run and after it."""
    _ = found.seen  # also reads after the run
    return found.history.readings


def every_reading_shows_what_it_should(found: Evidence) -> Iterator[str]:
    """At any time, each post is shown once, newest first, and not after its retraction.

    Each is in the reader's timeline, or in a channel that the reader may follow.
    """
    gone_ms: dict[str, float] = {}
    for each in found.history.of("retract"):
        if each.status == 204:  # perhaps not for the first time
            ended_ms = each.ended_ms + GONE_SECONDS * 1000
            gone_ms[each.subject] = min(ended_ms, gone_ms.get(each.subject, math.inf))
    for pages in _readings(found):
        keys = [(each["published_at"], each["ref_id"]) for page in pages for each in page.entries]
        refs = [ref_id for _, ref_id in keys]
        user = pages[0].user if pages else ""
        if keys != sorted(keys, reverse=True):
            yield f"{user} sees posts out of order: {keys}."
        if len(set(refs)) != len(refs):
            yield f"{user} sees a post twice: {refs}."
        for ref_id in refs:
            is_lost = (user, ref_id) in found.world.damage.lost_entries
            if not (is_lost or found.may_read(user, ref_id)):
                yield f"{user} sees {ref_id}, and has no entry of it."
        for page in pages:
            if page.is_short:  # so few posts meet no bound of a page
                yield f"{user} sees a short page that is not the last one: {page.entries}."
            for ref_id in (each["ref_id"] for each in page.entries):
                if page.begun_ms > gone_ms.get(ref_id, math.inf):
                    yield f"{user} sees {ref_id}, which was retracted seconds before."


def timelines_show_what_they_should(found: Evidence) -> Iterator[str]:
    """After the run, all entries of followed publishers are shown, unless retracted."""
    history = found.history
    gone = {each.subject for each in history.of("retract") if each.status == 204}
    gone |= found.world.observer.retracted.keys()
    due: dict[str, set[str]] = defaultdict(set)
    for row in found.timeline:
        user, publisher = row["user_id"]["S"], row["publisher_id"]["S"]
        if publisher in found.seen.visible(user):
            due[user].add(split_sort_key(row["sort_key"]["S"])[1])
    for ref_id, publisher in found.in_channels.items():
        if found.is_in_channel(ref_id):
            for user in found.seen.shown:
                if publisher in found.seen.visible(user):
                    due[user].add(ref_id)
    for user, shown in found.seen.shown.items():
        refs = [each["ref_id"] for each in shown]
        if bad := gone & set(refs):
            yield f"{user} sees retracted posts: {bad}."
        missing = due[user] - gone - set(refs)
        if missing := {ref for ref in missing if not history.tried_to_retract(ref)}:
            yield f"{user} has entries that are not shown: {missing}."


def posts_are_shown_as_they_were_sent(found: Evidence) -> Iterator[str]:
    """Shown posts have the body, publisher and time that the publisher sent."""
    shown = (
        (page.user, entry) for pages in _readings(found) for page in pages for entry in page.entries
    )
    for user, entry in shown:
        publish = found.publishes.get(entry["ref_id"])
        if publish is None:
            yield f"{user} is shown {entry}, which nobody has published."
        elif wrong := sorted(_wrong(found, entry, publish)):
            yield f"{user} is shown {entry}, with another {' and '.join(wrong)}."


def _wrong(found: Evidence, entry: dict[str, Any], publish: Publish) -> Iterator[str]:
    accepted = [each for each in publish.operations if each.answer]
    if entry["publisher_id"] != publish.publisher:
        yield "publisher"
    is_edited = entry["edited_at"] is not None  # then the check of edits judges the body
    if not is_edited and entry["body"] not in [
        each.content for each in accepted or publish.operations
    ]:
        yield "body"
    # Unless a time was sent, it is the time of acceptance, which the publisher of a retracted post
    # may never have been told.
    at, told = entry["published_at"], publish.accepted_at()
    given = found.history.given_times.get(publish.ref_id)
    if at != given if given else at not in told if told else not publish.tries_at(at):
        yield "time"

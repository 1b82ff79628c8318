"""Checks of edits, by requests and answers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fanfold import times
from fanfold.fanout.row import ABANDONED
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.reading.shown_posts import GONE_SECONDS

# This long after the answer to an edit, the old version may be shown (docs/api.md).
OLD_MS = GONE_SECONDS * 1000


def _shown(found: Evidence) -> Iterator[tuple[str, float, dict[str, Any]]]:
    """Each user who was shown a post, the time of the latest edit that must show, and the post.

    Timelines and feeds are cached; single posts are not.
    """
    _ = found.seen  # reads after the run count, too
    for pages in (*found.history.readings, *found.history.feeds):
        for page in pages:
            for entry in page.entries:
                yield page.user, page.begun_ms - OLD_MS, entry
    for read in found.history.post_reads:
        if read.post:
            yield read.user, read.begun_ms, read.post


def posts_are_shown_with_their_latest_edit(found: Evidence) -> Iterator[str]:
    """Body and `edited_at` are those of one edit, and no later edit was done before the read.

    An edit is done when it was answered with 200, or when its message left the queue without
    becoming a dead letter.
    """
    for user, by_ms, post in _shown(found):
        ref_id = post["ref_id"]
        publish = found.publishes.get(ref_id)
        edits = found.history.edits.of(ref_id, publish.publisher) if publish else []
        due = max((each.stamp for each in edits if each.done_ms <= by_ms), default=0)
        if post["edited_at"] is None:
            if due:
                yield f"{user} sees {ref_id} without its edit of {times.to_text(due)}."
            continue
        stamp = times.to_ms(post["edited_at"])
        if all((each.stamp, each.content) != (stamp, post["body"]) for each in edits):
            yield f"{user} sees an edit of {ref_id} that nobody sent: {post}."
        elif stamp < due:
            yield f"{user} sees {ref_id} as of {post['edited_at']}, not {times.to_text(due)}."


def edits_are_refused_with_reason(found: Evidence) -> Iterator[str]:
    """404 for posts of others or unknown ones, 409 after a later edit, 410 if retracted."""
    history = found.history
    for ref_id, tries in sorted(history.edits.by_post.items()):
        published = history.of("publish", "send", subject=ref_id)
        owners = {each.user for each in published} or {
            each.user for each in history.of("unsend", subject=ref_id)
        }
        for each in tries:
            if each.user not in owners and each.status and each.status < 500:
                if each.status != 404:
                    yield f"{each.user} was answered {each.status} about {ref_id}."
                continue
            others = (other for other in history.edits.of(ref_id, each.user) if other is not each)
            if each.status == 404 and any(
                post.answer and post.ended <= each.begun for post in published
            ):
                yield f"{ref_id} was accepted, and was not found to be edited."
            if each.status == 409 and all(other.stamp < each.stamp for other in others):
                yield f"An edit of {ref_id} was refused for a later one, and there was none."
            if each.status == 410 and all(
                retract.begun >= each.ended for retract in history.retractions(ref_id)
            ):
                yield f"An edit of {ref_id} was refused as retracted, and nobody had tried to."


def feeds_show_what_was_published(found: Evidence) -> Iterator[str]:
    """When the run is over, a feed has each post that is not retracted once, newest first."""
    _ = found.seen
    for pages in found.history.feeds:
        publisher = pages[0].user if pages else ""
        shown = [each for page in pages for each in page.entries]
        keys = [(each["published_at"], each["ref_id"]) for each in shown]
        if keys != sorted(set(keys), reverse=True):
            yield f"The feed of {publisher} is out of order: {keys}."
        if {each["publisher_id"] for each in shown} - {publisher}:
            yield f"The feed of {publisher} has posts of others."
        refs = {each["ref_id"] for each in shown}
        for ref_id, publish in found.publishes.items():
            if publish.publisher != publisher or ref_id in refs or not pages:
                continue
            # "Once a publish is accepted": one that a person ended before may leave no post.
            was_retracted = found.history.tried_to_retract(ref_id)
            is_stored = ref_id in found.posts
            was_there = publish.is_accepted or publish.state != ABANDONED or is_stored
            is_known = publish.status is not None and was_there and not was_retracted
            if is_known:
                yield f"{ref_id} is missing in the feed of {publisher}."
        gone = found.world.observer.retracted.keys() & refs
        if gone:
            yield f"The feed of {publisher} has retracted posts: {sorted(gone)}."


def posts_are_found_by_themselves(found: Evidence) -> Iterator[str]:
    """A post is read until it is retracted, and never again."""
    _ = found.seen
    history = found.history
    gone_ms = {each.subject: each.ended_ms for each in history.of("retract") if each.status == 204}
    for read in history.post_reads:
        ref_id = read.ref_id
        if read.post and read.begun_ms > gone_ms.get(ref_id, read.begun_ms):
            yield f"{read.user} reads {ref_id}, which was retracted before."
        accepted = (
            each.answer and each.ended_ms <= read.begun_ms
            for each in history.of("publish", subject=ref_id)
        )
        # Where publishers decide, another check says who may read it.
        owners = {each.user for each in history.of("publish", subject=ref_id)}
        if owners & history.audience.deciding - {read.user}:
            continue
        if read.post is None and not history.tried_to_retract(ref_id) and any(accepted):
            yield f"{read.user} does not find {ref_id}, which was accepted before."

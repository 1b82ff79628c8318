"""Checks of posts that were accepted, retracted or repeated, and of their ids."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations

from fanfold import times
from fanfold.fanout.row import ABANDONED, COMPLETE, EXPIRED, STALLED
from fanfold.ids import split_sort_key
from fanfold.settings import Settings
from proof.simulation.checks.evidence import Evidence

MINUTE_MS = 60_000
RETENTION_MS = Settings.retention_days * 24 * 60 * 60 * 1000


def every_accepted_post_is_delivered_or_visibly_not(found: Evidence) -> Iterator[str]:
    """A post answered with 202, or sent to the queue, is complete, or visibly not.

    Visibly not: its publisher is told that it is stalled, abandoned by an operator, or expired with
    the retention; or it is a dead letter, perhaps in a file of dropped ones. The checks of entries
    say whether complete ones were delivered.
    """
    letters = [*(message.body for _, message in found.world.dead_letters()), *found.dropped()]
    for ref_id, publish in found.publishes.items():
        state = publish.state
        if state == ABANDONED and ref_id not in found.world.abandoned:
            yield f"{ref_id} is abandoned, and nobody did that."
        elif state == EXPIRED and found.seen.at_ms < publish.begun_ms + RETENTION_MS:
            yield f"{ref_id} has expired too early."
        elif state and state not in (COMPLETE, STALLED, ABANDONED, EXPIRED):
            yield f"{ref_id} is {state}, long after the last fault."
        # An unknown post was retracted before it arrived.
        is_missing = (
            not state and publish.is_accepted and not found.history.tried_to_retract(ref_id)
        )
        if is_missing and not any(f'"{ref_id}"' in letter for letter in letters):
            yield f"{ref_id} was accepted, and is neither known nor a dead letter."


def nobody_publishes_over_http_faster_than_the_rate(found: Evidence) -> Iterator[str]:
    """In any interval, a publisher's accepted posts fit into the burst and its refill.

    "The rate fails open": a post whose count failed is not counted (docs/decisions/0037-rates.md).
    A restored row of the publishers table has forgotten some posts.
    """
    world = found.world
    if world.damage.are_rates_restored:
        return
    accepted: dict[str, list[int]] = defaultdict(list)
    for publish in found.publishes.values():
        if publish.ref_id in world.observer.uncounted:
            continue
        if publish.operations and all(each.kind == "publish" for each in publish.operations):
            for at in sorted(publish.accepted_at())[:1]:
                accepted[publish.publisher].append(times.to_ms(at))
    limit = world.rate.limit
    for publisher, times_ms in accepted.items():
        times_ms.sort()
        windows = combinations(enumerate(times_ms, 1), 2)
        if any(
            (last - first + 1) * MINUTE_MS > limit * (MINUTE_MS + until_ms - since_ms)
            for (first, since_ms), (last, until_ms) in windows
        ):
            yield f"{publisher} publishes faster than {limit} a minute."


def posts_are_accepted_when_they_were_sent(found: Evidence) -> Iterator[str]:
    """All answers give a post the same time of acceptance, at which it was being sent."""
    for ref_id, publish in found.publishes.items():
        told = sorted(publish.accepted_at())
        if len(told) > 1:
            yield f"{ref_id} was accepted at {' and at '.join(told)}."
        for each in told:
            if not publish.tries_at(each):
                yield f"{ref_id} was accepted at {each}, and was not being sent then."


def a_post_that_was_retracted_first_is_not_delivered(found: Evidence) -> Iterator[str]:
    """A tombstone written before its post is respected, and so is a retraction before a repeat.

    A row may exist if an operator ended it for good (docs/api.md) before it became void.
    """
    for ref_id, turn in found.world.observer.retracted.items():
        publishes = found.history.of("publish", "send", subject=ref_id)
        row = found.fanouts.get(ref_id, {"state": {"S": ABANDONED}})
        if row["state"]["S"] != ABANDONED and all(turn < publish.begun for publish in publishes):
            yield f"{ref_id} was retracted before it was published; the ledger has it."
        if any(publish.answer and turn < publish.begun for publish in publishes):
            yield f"{ref_id} was retracted, and accepted afterwards."


def only_its_publisher_retracts_a_post_that_exists(found: Evidence) -> Iterator[str]:
    """A DELETE of any other post is 404 and leaves nothing."""
    history = found.history
    for squat in history.of("squat"):
        if squat.status < 500 and squat.status != 404:
            yield f"{squat.user} was answered {squat.status} about {squat.subject}."
    for retract in history.of("retract"):
        publishes = history.of("publish", "send", "unsend", subject=retract.subject)
        if retract.status == 204 and all(retract.ended <= each.begun for each in publishes):
            yield f"{retract.subject} was retracted over HTTP before it was published."
        accepted = [each for each in publishes if each.answer and each.ended <= retract.begun]
        if retract.status == 404 and accepted:
            yield f"{retract.subject} was accepted, and not found by its publisher."
    for ref_id, row in found.posts.items():
        user = row.get("publisher_id", {"S": "nobody"})["S"]
        if not history.of("publish", "send", "unsend", user=user, subject=ref_id):
            yield f"{user} has {ref_id}, and never published it."


def a_key_stands_for_one_post(found: Evidence) -> Iterator[str]:
    """Every answer to a key has the stored body and times, and each refusal has a reason.

    The body may have been edited since, which the checks of edits judge. 422 refuses only another
    body, and 410 only what its publisher has retracted, or tried to.
    """
    for publish in found.history.of("publish"):
        same = found.history.of("publish", subject=publish.subject)
        retracts = found.history.retractions(publish.subject)
        if publish.status == 410 and all(each.begun >= publish.ended for each in retracts):
            yield f"{publish.subject} was refused as retracted, and nobody had tried to."
        if publish.answer and any(each.answer and each.content != publish.content for each in same):
            yield f"{publish.subject} was accepted with two bodies."
        if publish.status == 422 and all(each.content == publish.content for each in same):
            yield f"{publish.subject} was refused for another body, and there was none."
        if not publish.answer or found.history.tried_to_retract(publish.subject):
            continue
        stored = found.posts[publish.subject]
        published_at = split_sort_key(stored["sort_key"]["S"])[0]
        times = {"published_at": published_at, "accepted_at": stored["accepted_at"]["S"]}
        if publish.answer != {"ref_id": publish.subject, **times}:
            yield f"{publish.subject} was answered with other times than the stored ones."
        is_edited = bool(found.history.edits.of(publish.subject, publish.user))
        if not is_edited and publish.content != json.loads(stored["body"]["S"]):
            yield f"{publish.subject} was accepted with another body than the stored one."

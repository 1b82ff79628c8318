"""Checks of the work done: dead letters, repairs of SWEEP, and writes."""

from __future__ import annotations

from collections.abc import Iterator

from fanfold import names
from fanfold.aws.items import get_text
from fanfold.fanout import worker_steps
from fanfold.fanout.row import ABANDONED, COMPLETE
from proof.simulation.checks.evidence import Evidence

# The post and its `outbox`, the fan-out and its `open`, the plan, and the end of `open`. A body of
# 1 KB, with its id and times, would take one more.
UNITS_A_POST = 6


def dead_letters_are_noise_or_were_tried_out(found: Evidence) -> Iterator[str]:
    """Noise becomes a dead letter immediately, any other message after its last try.

    The observer checks during the run that each try failed for a reason.
    """
    world = found.world
    bodies = {message.body for _, message in world.dead_letters()} | found.dropped()
    for body in sorted(world.noise - bodies):
        yield f"A message that breaks the contract is not a dead letter: {body[:80]}."
    for queue, message in world.dead_letters():
        # SQS moved it, or DELIVER after its last hand-back.
        is_handed_back = f'"hops":{world.max_hops}' in message.body and world.faults.injected
        is_tried_out = message.dead_letter_source or is_handed_back
        if message.body not in world.noise and not is_tried_out:
            yield f"A dead letter of {queue.name} that was not tried out: {message.body[:80]}."


def small_faults_need_no_sweep(found: Evidence) -> Iterator[str]:
    """Unsent entries, unprocessed items and duplicates are handled where they occur."""
    world, repairs = found.world, found.world.observer.repairs
    small = {"partial", "duplicated", "skewed", "unsent", "conflict", "apart"}
    is_slow = world.triggers.was_paused or world.triggers.seconds_a_message > 0
    # DynamoDB never leaves a channel's put, a batch of one, unprocessed. Here that may happen six
    # times in a row; then the message comes again.
    is_slow = is_slow or world.channels.given_up > 0
    if repairs and not world.faults.injected.keys() - small and not is_slow:
        yield f"SWEEP made {repairs} repairs that no crash explains."


def writes_are_in_proportion(found: Evidence) -> Iterator[str]:
    """Entries are put once, unless they were unprocessed, lost or repeated."""
    if found.may_be_sent_twice():
        return
    world, entries = found.world, len(found.entries.keys() - found.only_filled)
    entries += found.most_again()
    puts, faults = world.observer.puts, world.faults.injected.keys()
    if not faults and puts > entries:
        yield f"Without any fault, {entries} entries took {puts} puts."
    # With 30 % of each batch unprocessed an entry takes 1.4 puts on average, but a few take many.
    is_partial_only = (
        faults <= {"partial", "skewed", "unsent", "conflict", "apart"}
        and world.time_pressure == 1.0
    )
    if is_partial_only and puts > 2 * entries + 10:
        yield f"With unprocessed items alone, {entries} entries took {puts} puts."


def book_keeping_is_a_few_units(found: Evidence) -> Iterator[str]:
    """A small post takes seven write units besides its entries, and in one hop six.

    With more segments, each takes one, and perhaps another one to see that it was not the last. For
    posts in the bulk lane, even because of a publisher's rate, the plan moves the key in `open`,
    which takes two more.
    """
    world = found.world
    is_calm = not world.faults.injected.keys() - {"skewed"} and world.time_pressure == 1.0
    if not is_calm or found.may_be_sent_twice():
        return
    for ref_id, publish in found.publishes.items():
        tries = [each for operation in publish.operations for each in operation.tries]
        # Failed tries to retract, edit or abandon it are charged, too.
        others = found.history.of("retract", "unsend", "squat", subject=ref_id)
        edits = found.history.edits.by_post.get(ref_id)
        is_touched = bool(others or edits) or ref_id in world.abandoned
        if publish.state != COMPLETE or len(tries) > 1 or is_touched:
            continue
        is_small = found.history.has_few_followers(publish.publisher)
        segments = 1 if is_small else int(found.fanouts[ref_id]["segments"]["N"])
        units, more = world.meter.book_keeping[ref_id], segments if segments > 1 else 0
        is_over_rate = get_text(found.fanouts[ref_id], "lane") == names.BULK.lane
        more += 2 if segments > 1 or is_over_rate else 0
        # One hop ends with the update that elsewhere fixes the plan.
        finishes = 0 if ref_id in world.observer.at_once else segments
        if units > UNITS_A_POST + finishes + more:
            yield f"{ref_id} took {units} write units beside its entries, in {segments} segments."


def stragglers_have_nobody_written_again(found: Evidence) -> Iterator[str]:
    """If only one or two stragglers delay segments, each entry is written exactly once.

    A straggler's may be written twice, if its order became a dead letter; and the whole ring, if
    two PLANs had the post at the same time.
    """
    world, stragglers = found.world, len(found.world.faults.hot)
    is_alone = (
        world.faults.injected.keys() <= {"hot", "skewed", "conflict", "apart"}
        and not found.may_be_sent_twice()
    )
    if not is_alone or stragglers > worker_steps.MAX_STRAGGLERS:
        return
    entries = len(found.entries.keys() - found.only_filled)
    written = world.meter.of(names.TIMELINES.name) - sum(world.observer.filled.values())
    written -= world.channels.puts
    again = written - found.written_again() - entries
    if not 0 <= again <= found.most_again():
        yield f"Beside {stragglers} stragglers, {entries} entries took {written} writes."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] not in ("complete", ABANDONED):
            yield f"{ref_id} is {row['state']['S']}, though its stragglers could be written."

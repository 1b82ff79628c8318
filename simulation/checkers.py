"""Checks after a run: what was acknowledged against what is in the tables.

Each check yields one sentence for each violation. A follow or unfollow that overlaps the acceptance
of a post, or was never acknowledged, may count either way: such pairs are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from fanfold import names
from fanfold.fanout import policy
from fanfold.fanout.deliver import MAX_HOPS
from fanfold.fanout.row import ABANDONED
from fanfold.ids import split_sort_key
from simulation import workload
from simulation.observers import pair_of
from simulation.wishes import unexplained
from simulation.world import World, accepted_ms

# A message is stamped by a clock of whole milliseconds, and each change moves `asked_at` on by one.
ROUNDING_MS = 10


class Evidence:
    """The tables after a run, and the history of its operations."""

    def __init__(self, world: World) -> None:
        self.world, self.history = world, world.history
        self.posts = {row["ref_id"]["S"]: row for row in world.rows(names.POSTS)}
        self.fanouts = {row["fanout_id"]["S"]: row for row in world.fanouts()}
        self.entries = Counter(  # by user and `ref_id`
            (row["user_id"]["S"], split_sort_key(row["sort_key"]["S"])[1])
            for row in world.rows(names.TIMELINES)
        )

    def complete(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Each complete fan-out of a post that nobody retracts: `ref_id`, row and publisher."""
        for ref_id, row in self.fanouts.items():
            if row["state"]["S"] == "complete" and not self.history.tried_to_retract(ref_id):
                yield ref_id, row, row["publisher_id"]["S"]

    def has_late_edge(self, user: str, fanout: dict[str, Any]) -> bool:
        """Whether the fan-out may have read an edge put late."""
        pair, ended_ms = (user, fanout["publisher_id"]["S"]), self.world.observer.ended_ms
        until_ms = ended_ms.get(fanout["fanout_id"]["S"], 0.0)
        relations = self.world.observer.relations
        return relations.has_late_edge(pair, accepted_ms(fanout), until_ms)

    def may_be_sent_twice(self) -> bool:
        """Whether segments may have been sent twice without a fault.

        Two plans of one millisecond are both sent; so may be, by SWEEP, the segments that wait in a
        queue as it is resumed, or in a slow lane.
        """
        triggers = self.world.triggers
        is_slow = triggers.was_paused or triggers.seconds_a_message > 0
        return is_slow or self.world.observer.was_planned_twice


def no_acknowledged_follower_is_missed(found: Evidence) -> Iterator[str]:
    """Every follower whose follow was acknowledged before `accepted_at` has the entry."""
    for ref_id, row, publisher in found.complete():
        for user in found.history.users():
            follows = found.history.is_certain("follow", user, publisher, accepted_ms(row))
            if follows and not found.entries[user, ref_id]:
                yield f"{user} followed {publisher} before {ref_id} was accepted, and has no entry."


def nobody_gets_what_they_do_not_follow(found: Evidence) -> Iterator[str]:
    """Whoever never followed, or unfollowed before the acceptance, has no entry.

    An exception is an edge put late: it stays until its task, or RELATE, reads the row again.
    """
    for user, ref_id in found.entries:
        row = found.fanouts.get(ref_id)
        if row is None:
            yield f"{user} has {ref_id}, which the ledger does not know."
            continue
        publisher = row["publisher_id"]["S"]
        never = not found.history.of("follow", user=user, subject=publisher)
        unfollowed = found.history.is_certain("unfollow", user, publisher, accepted_ms(row))
        if never or (unfollowed and not found.has_late_edge(user, row)):
            yield f"{user} has {ref_id}, and does not follow {publisher}."


def entries_agree_with_the_following_rows(found: Evidence) -> Iterator[str]:
    """The same by the rows, which decide also for users who change their mind all the time."""
    observer = found.world.observer
    for ref_id, row, publisher in found.complete():
        interval = accepted_ms(row), observer.ended_ms[ref_id]
        for user, state in observer.relations.standing(publisher, *interval):
            has_entry = found.entries[user, ref_id] > 0
            if state == "followed" and not has_entry:
                yield f"{user} follows {publisher}, and has no entry of {ref_id}."
            if state != "followed" and has_entry and not found.has_late_edge(user, row):
                yield f"{user} does not follow {publisher}, and has {ref_id}."


def every_accepted_post_is_delivered_or_visibly_not(found: Evidence) -> Iterator[str]:
    """A post answered with 202, or sent to the queue, is complete, stalled or a dead letter."""
    dead_letters = " ".join(message.body for _, message in found.world.dead_letters())
    published = [each for each in found.history.of("publish") if each.answer is not None]
    sent = [each for each in found.history.of("send") if each.is_acknowledged]
    for ref_id in (each.subject for each in (*published, *sent)):
        row = found.fanouts.get(ref_id)
        if row is not None and row["state"]["S"] not in ("complete", "stalled", ABANDONED):
            yield f"{ref_id} is {row['state']['S']}, long after the last fault."
        # Without a row, its tombstone came first, and was respected.
        is_missing = row is None and not found.history.tried_to_retract(ref_id)
        if is_missing and f'"{ref_id}"' not in dead_letters:
            yield f"{ref_id} was accepted, and is neither in the ledger nor a dead letter."


def a_post_that_was_retracted_first_is_not_delivered(found: Evidence) -> Iterator[str]:
    """A tombstone written before its post is respected, and a retraction before a repeat."""
    for ref_id, turn in found.world.observer.retracted.items():
        publishes = found.history.of("publish", "send", subject=ref_id)
        if ref_id in found.fanouts and all(turn < publish.begun for publish in publishes):
            yield f"{ref_id} was retracted before it was published; the ledger has it."
        if any(publish.answer and turn < publish.begun for publish in publishes):
            yield f"{ref_id} was retracted, and accepted afterwards."


def only_its_publisher_retracts_a_post_that_exists(found: Evidence) -> Iterator[str]:
    """A DELETE of anything else is 404, and leaves nothing."""
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


def the_ledger_is_right(found: Evidence) -> Iterator[str]:
    """Complete means nothing pending, not open, and `delivered` entries in the timelines."""
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] == ABANDONED:
            continue
        if row["state"]["S"] != "complete":
            if "open_fanout" not in row:
                yield f"{ref_id} is {row['state']['S']} and not in the index of open fan-outs."
            continue
        if "pending" in row or "open_fanout" in row:
            yield f"{ref_id} is complete, and has something pending or open."
        delivered = int(row["delivered"]["N"])
        entries = sum(1 for _, each in found.entries if each == ref_id)
        relates = found.history.of("follow", "unfollow", subject=row["publisher_id"]["S"])
        has_changed = any(each.ended_ms >= accepted_ms(row) for each in relates)
        is_fixed = not has_changed and not found.history.tried_to_retract(ref_id)
        if is_fixed and delivered != entries:
            yield f"{ref_id} has {entries} entries, and the ledger says {delivered}."


def what_an_operator_ended_stays_ended(found: Evidence) -> Iterator[str]:
    """Nothing reopens an abandoned fan-out, and nobody else ends one."""
    for ref_id, is_certain in found.world.abandoned.items():
        state = found.fanouts[ref_id]["state"]["S"]
        if is_certain and state != ABANDONED:
            yield f"{ref_id} was abandoned, and is {state}."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] != ABANDONED:
            continue
        if ref_id not in found.world.abandoned:
            yield f"{ref_id} is abandoned, and nobody did that."
        if "open_fanout" in row or "stalled_fanout" in row:
            yield f"{ref_id} is abandoned, and in an index."


def timelines_show_what_they_should(found: Evidence) -> Iterator[str]:
    """Read over HTTP, each post is shown once, newest first, and no retracted post is."""
    world, history = found.world, found.history
    gone = {each.subject for each in history.of("retract") if each.status == 204}
    gone |= world.observer.retracted.keys()
    shown: dict[str, list[str]] = {}

    def read_all() -> None:
        for user in sorted(history.users()):
            shown[user] = workload.read(world, user)

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


def a_key_stands_for_one_post(found: Evidence) -> Iterator[str]:
    """Every answer to a key has the stored body and times, and 422 only refuses another body."""
    for publish in found.history.of("publish"):
        same = found.history.of("publish", subject=publish.subject)
        if publish.status not in (0, 202, 410, 422) and publish.status < 500:
            yield f"{publish.subject} was answered {publish.status}."
        if publish.status == 422 and all(each.content == publish.content for each in same):
            yield f"{publish.subject} was refused for another body, and there was none."
        if not publish.answer or found.history.tried_to_retract(publish.subject):
            continue
        stored = found.posts[publish.subject]
        published_at = split_sort_key(stored["sort_key"]["S"])[0]
        times = {"published_at": published_at, "accepted_at": stored["accepted_at"]["S"]}
        if publish.answer != {"ref_id": publish.subject, **times}:
            yield f"{publish.subject} was answered with other times than the stored ones."
        if publish.content != json.loads(stored["body"]["S"]):
            yield f"{publish.subject} was accepted with another body than the stored one."


def edges_agree_with_the_following_rows(found: Evidence) -> Iterator[str]:
    """Each followed row has an edge, no other row has one, and the counts of follows are exact."""
    world = found.world
    pairs = world.edges()
    followed = {
        (row["user_id"]["S"], row["publisher_id"]["S"])
        for row in world.rows(names.FOLLOWING)
        if row["state"]["S"] == "followed"
    }
    failed = " ".join(
        message.body
        for queue, message in world.dead_letters()
        if queue in (names.RELATION, names.PUBLISH)
    )
    for user, publisher in followed ^ pairs:
        if f'"{user}"' not in failed:
            yield f"The edge of {user} at {publisher} does not agree with the following row."
    counts = Counter(user for user, _ in followed)
    for row in world.rows(names.READERS):
        if int(row.get("follows", {"N": "0"})["N"]) != counts[row["user_id"]["S"]]:
            yield f"The count of follows of {row['user_id']['S']} is not exact."


def follows_change_as_they_were_asked_to(found: Evidence) -> Iterator[str]:
    """Requests are linearizable; a message has one effect, or none after a later wish."""
    world = found.world
    dead_letters = " ".join(message.body for _, message in world.dead_letters())
    for (user, publisher), wishes in found.history.wishes.items():
        if f'"{user}"' in dead_letters:
            continue
        changes = world.observer.relations.changes((user, publisher))
        skew_ms = abs(world.door_skew_ms) + ROUNDING_MS
        for sentence in unexplained(changes, wishes, skew_ms=skew_ms):
            yield f"{user} at {publisher}: {sentence}"


def a_last_post_reaches_every_follower_once(found: Evidence) -> Iterator[str]:
    """Post once more when all is quiescent: it reaches every edge at any level, and only those."""
    world = found.world
    wanted: dict[str, set[str]] = {
        each.subject: set() for each in found.history.of("follow", "unfollow")
    }
    for row in world.rows(names.FOLLOWERS):
        user, publisher = pair_of(row)
        wanted[publisher].add(user)
    posts: dict[str, str] = {}

    def post_all() -> None:
        for publisher in wanted:
            posts[publisher] = workload.by_http(world, publisher, f"{publisher}-last").subject

    world.run(lambda each: each.start_client("publisher", post_all))
    fresh = Evidence(world)
    for publisher, ref_id in posts.items():
        reached = {user for user, each in fresh.entries if each == ref_id}
        if wrong := reached ^ wanted[publisher]:
            yield f"{ref_id} reached {sorted(reached)}: wrong about {sorted(wrong)}."
        delivered = int(fresh.fanouts.get(ref_id, {}).get("delivered", {"N": "0"})["N"])
        if delivered != len(wanted[publisher]):
            yield f"{ref_id} was delivered {delivered} times to {len(wanted[publisher])}."


def dead_letters_are_noise_or_were_tried_out(found: Evidence) -> Iterator[str]:
    """Noise is a dead letter at once, and any other message after its last try."""
    world = found.world
    bodies = {message.body for _, message in world.dead_letters()}
    for body in sorted(world.noise - bodies):
        yield f"A message that breaks the contract is not a dead letter: {body[:80]}."
    for queue, message in world.dead_letters():
        # SQS moved it, or DELIVER after its last hand-back.
        is_tried_out = message.dead_letter_source or f'"hops":{MAX_HOPS}' in message.body
        if message.body not in world.noise and not (is_tried_out and world.faults.injected):
            yield f"A dead letter of {queue.name} that was not tried out: {message.body[:80]}."


def small_faults_need_no_sweep(found: Evidence) -> Iterator[str]:
    """Unsent entries, unprocessed items and duplicates are handled where they occur."""
    world, repairs = found.world, found.world.observer.repairs
    small = {"partial", "duplicated", "skewed", "unsent"}
    is_slow = world.triggers.was_paused or world.triggers.seconds_a_message > 0
    if repairs and not world.faults.injected.keys() - small and not is_slow:
        yield f"SWEEP made {repairs} repairs that no crash explains."


def writes_are_in_proportion(found: Evidence) -> Iterator[str]:
    """Entries are put once, except for those that were unprocessed, lost, or repeated."""
    if found.may_be_sent_twice():
        return
    world, entries = found.world, len(found.entries)
    puts, faults = world.observer.puts, world.faults.injected.keys()
    if not faults and puts > entries:
        yield f"Without any fault, {entries} entries took {puts} puts."
    # With 30 % of each batch unprocessed an entry takes 1.4 puts on average, but a few take many.
    is_partial_only = faults <= {"partial", "skewed", "unsent"} and world.time_pressure == 1.0
    if is_partial_only and puts > 2 * entries + 10:
        yield f"With unprocessed items alone, {entries} entries took {puts} puts."


def stragglers_have_nobody_written_again(found: Evidence) -> Iterator[str]:
    """Where only one or two stragglers delay segments, each entry is written exactly once."""
    world, stragglers = found.world, len(found.world.faults.hot)
    is_alone = world.faults.injected.keys() <= {"hot", "skewed"} and not found.may_be_sent_twice()
    if not is_alone or stragglers > policy.MAX_STRAGGLERS:
        return
    entries, written = len(found.entries), world.meter.of(names.TIMELINES.name)
    if written != entries:
        yield f"Beside {stragglers} stragglers, {entries} entries took {written} writes."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] not in ("complete", ABANDONED):
            yield f"{ref_id} is {row['state']['S']}, though its stragglers could be written."


def nothing_was_observed_during_the_run(found: Evidence) -> Iterator[str]:
    """Violations that show only while they happen."""
    yield from found.world.observer.violations


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    no_acknowledged_follower_is_missed,
    nobody_gets_what_they_do_not_follow,
    entries_agree_with_the_following_rows,
    every_accepted_post_is_delivered_or_visibly_not,
    a_post_that_was_retracted_first_is_not_delivered,
    only_its_publisher_retracts_a_post_that_exists,
    the_ledger_is_right,
    what_an_operator_ended_stays_ended,
    timelines_show_what_they_should,
    a_key_stands_for_one_post,
    edges_agree_with_the_following_rows,
    follows_change_as_they_were_asked_to,
    dead_letters_are_noise_or_were_tried_out,
    small_faults_need_no_sweep,
    writes_are_in_proportion,
    stragglers_have_nobody_written_again,
    a_last_post_reaches_every_follower_once,
    nothing_was_observed_during_the_run,
)


def violations(world: World) -> list[str]:
    found = Evidence(world)
    return [f"{check.__name__}: {line}" for check in CHECKS for line in check(found)]

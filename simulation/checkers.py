"""The promise, checked after a run: what was acknowledged against what is there.

Each check yields a sentence for every violation that it finds. A follow or unfollow that overlaps
the acceptance of a post, or that was never answered, may count either way: those are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fanfold import names
from fanfold.fanout import policy
from fanfold.fanout.deliver import MAX_HOPS
from fanfold.follows import ring
from fanfold.ids import split_sort_key
from simulation import workload
from simulation.world import Operation, World, accepted_ms


@dataclass
class Evidence:
    """What is there after a run, and what was acknowledged in it."""

    world: World
    posts: dict[str, dict[str, Any]] = field(default_factory=dict)
    fanouts: dict[str, dict[str, Any]] = field(default_factory=dict)
    entries: Counter[tuple[str, str]] = field(default_factory=Counter)
    users: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        world = self.world
        self.posts = {row["ref_id"]["S"]: row for row in world.rows(names.POSTS)}
        self.fanouts = {row["fanout_id"]["S"]: row for row in world.rows(names.FANOUTS)}
        for row in world.rows(names.TIMELINES):
            ref_id = split_sort_key(row["sort_key"]["S"])[1]
            self.entries[row["user_id"]["S"], ref_id] += 1
        self.users = {deed.user for deed in world.history if deed.what in ("follow", "unfollow")}

    def history(self, what: str, *, user: str | None = None, subject: str) -> list[Operation]:
        """Everything of a kind that somebody did."""
        return [
            deed
            for deed in self.world.history
            if deed.what == what and deed.subject == subject and user in (None, deed.user)
        ]

    def surely(self, what: str, user: str, publisher: str, before_ms: int) -> bool:
        """Whether a follow (or unfollow) was acknowledged before, and no opposite one since."""
        opposite = "unfollow" if what == "follow" else "follow"
        others = self.history(opposite, user=user, subject=publisher)
        return any(
            deed.done_ms < before_ms and all(other.done <= deed.begun for other in others)
            for deed in self.history(what, user=user, subject=publisher)
        )

    def has_late_edge(self, user: str, fanout: dict[str, Any]) -> bool:
        """Whether an edge may have been there for the post that nobody had acknowledged."""
        pair, ended_ms = (user, fanout["publisher_id"]["S"]), self.world.ended_ms
        until_ms = ended_ms.get(fanout["fanout_id"]["S"], 0.0)
        return self.world.relations.has_late_edge(pair, accepted_ms(fanout), until_ms)

    def retracted(self, ref_id: str) -> bool:
        """Whether anybody tried to take the post back."""
        return bool(self.history("retract", subject=ref_id))


def no_acknowledged_follower_is_missed(found: Evidence) -> Iterator[str]:
    """Every follower whose follow was acknowledged before `accepted_at` has the entry."""
    for ref_id, row in found.fanouts.items():
        if found.retracted(ref_id) or row["state"]["S"] != "complete":
            continue
        publisher = row["publisher_id"]["S"]
        for user in found.users:
            follows = found.surely("follow", user, publisher, accepted_ms(row))
            if follows and not found.entries[user, ref_id]:
                yield f"{user} followed {publisher} before {ref_id} was accepted, and has it not."


def nobody_gets_what_they_do_not_follow(found: Evidence) -> Iterator[str]:
    """No entry for who never followed, or whose unfollow was acknowledged before acceptance.

    But for who has a settling that began before the unfollow put the edge after it: until that
    settling looks at the row again, or another one if it stops before that, the edge is there.
    """
    for user, ref_id in found.entries:
        row = found.fanouts.get(ref_id)
        if row is None:
            yield f"{user} has {ref_id}, which the ledger does not know."
            continue
        publisher = row["publisher_id"]["S"]
        never = not found.history("follow", user=user, subject=publisher)
        unfollowed = found.surely("unfollow", user, publisher, accepted_ms(row))
        is_overtaken = found.has_late_edge(user, row)
        if never or (unfollowed and not is_overtaken):
            yield f"{user} has {ref_id}, and does not follow {publisher}."


def who_follows_by_the_rows_has_it_and_nobody_else(found: Evidence) -> Iterator[str]:
    """The same by the rows, which know it of those too who change their mind all the time."""
    relations = found.world.relations
    for ref_id, row in found.fanouts.items():
        if found.retracted(ref_id) or row["state"]["S"] != "complete":
            continue
        publisher, begun_ms = row["publisher_id"]["S"], accepted_ms(row)
        for user, state in relations.standing(publisher, begun_ms, found.world.ended_ms[ref_id]):
            has = found.entries[user, ref_id] > 0
            may_have = found.has_late_edge(user, row)
            if state == "followed" and not has:
                yield f"{user} follows {publisher}, and has not {ref_id}."
            if state != "followed" and has and not may_have:
                yield f"{user} does not follow {publisher}, and has {ref_id}."


def every_accepted_post_is_delivered_or_visibly_not(found: Evidence) -> Iterator[str]:
    """What was answered with 202, or sent to the queue, is complete; else it is seen to be not."""
    letters = " ".join(message.body for _, message in found.world.dead_letters())
    for deed in found.world.history:
        accepted = deed.what == "publish" and deed.detail is not None
        if not accepted and not (deed.what == "send" and deed.done_ms < float("inf")):
            continue
        ref_id = deed.subject
        if found.retracted(ref_id) and ref_id not in found.fanouts:
            continue  # its tombstone came first, and was respected
        row = found.fanouts.get(ref_id)
        if row is None and f'"{ref_id}"' not in letters:
            yield f"{ref_id} was accepted, and is neither in the ledger nor a dead letter."
        elif row is not None and row["state"]["S"] not in ("complete", "stalled"):
            yield f"{ref_id} is {row['state']['S']}, long after the last fault."


def what_was_retracted_first_is_not_delivered(found: Evidence) -> Iterator[str]:
    """A tombstone that was there before its post is respected."""
    for deed in found.world.history:
        if deed.what != "retract":
            continue
        publishes = [
            each
            for what in ("publish", "send")
            for each in found.history(what, subject=deed.subject)
        ]
        came_first = all(deed.done <= publish.begun for publish in publishes)
        if came_first and deed.subject in found.fanouts:
            yield f"{deed.subject} was retracted before it was published, and is in the ledger."


def the_ledger_tells_the_truth(found: Evidence) -> Iterator[str]:
    """Complete means nothing pending, not open, and `delivered` entries in the timelines."""
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] != "complete":
            if "open_fanout" not in row:
                yield f"{ref_id} is {row['state']['S']} and not in the index of open fan-outs."
            continue
        if "pending" in row or "open_fanout" in row:
            yield f"{ref_id} is complete and has something pending or open."
        delivered = int(row["delivered"]["N"])
        there = sum(1 for _, each in found.entries if each == ref_id)
        changes = [
            deed
            for what in ("follow", "unfollow")
            for deed in found.history(what, subject=row["publisher_id"]["S"])
            if deed.done_ms >= accepted_ms(row)
        ]
        if not changes and not found.retracted(ref_id) and delivered != there:
            yield f"{ref_id} has {there} entries, and the ledger says {delivered}."


def timelines_show_each_post_once_newest_first_and_nothing_retracted(
    found: Evidence,
) -> Iterator[str]:
    """What a reader sees, through the door."""
    world = found.world
    gone = {
        deed.subject for deed in world.history if deed.what == "retract" and deed.done_ms < 1e300
    }
    shown: dict[str, list[str]] = {}

    def read_all() -> None:
        for user in sorted(found.users):
            shown[user] = workload.read(world, user)

    def read_on_stage(each: World) -> None:
        each.stage.enter("client reader", read_all)

    world.clock.advance(60.0)  # the doors' caches forget
    world.run(read_on_stage)
    for user, refs in shown.items():
        keys = [found.posts[ref]["sort_key"]["S"] for ref in refs if "sort_key" in found.posts[ref]]
        if keys != sorted(keys, reverse=True):
            yield f"{user} sees posts out of order: {keys}."
        if len(set(refs)) != len(refs):
            yield f"{user} sees a post twice: {refs}."
        if bad := gone & set(refs):
            yield f"{user} sees what was retracted: {bad}."
        due = {ref for who, ref in found.entries if who == user} - gone
        if missing := {ref for ref in due if not found.retracted(ref)} - set(refs):
            yield f"{user} has entries that are not shown: {missing}."


def a_stored_post_keeps_its_first_answer(found: Evidence) -> Iterator[str]:
    """Every answer to the same `ref_id` told the stored times."""
    for deed in found.world.history:
        if deed.what != "publish" or not deed.detail or found.retracted(deed.subject):
            continue
        stored = found.posts[deed.subject]
        if deed.detail["published_at"] != split_sort_key(stored["sort_key"]["S"])[0]:
            yield f"{deed.subject} was answered with another time than the stored one."


def edges_agree_with_the_rows_that_decide(found: Evidence) -> Iterator[str]:
    """Each following row has its edge, each ended one none, and the readers' counts are exact."""
    world = found.world
    edges = {(row["shard_id"]["S"], row["edge"]["S"]) for row in world.rows(names.FOLLOWERS)}
    pairs = {(ring.publisher_of(shard), ring.follower_of(edge)) for shard, edge in edges}
    counts: Counter[str] = Counter()
    followed: set[tuple[str, str]] = set()
    for row in world.rows(names.FOLLOWING):
        if row["state"]["S"] == "followed":
            followed.add((row["publisher_id"]["S"], row["user_id"]["S"]))
            counts[row["user_id"]["S"]] += 1
    buried = " ".join(
        message.body
        for queue, message in world.dead_letters()
        if queue in (names.RELATION, names.PUBLISH)
    )
    for publisher, user in followed ^ pairs:
        if f'"{user}"' not in buried:
            yield f"The edge of {user} at {publisher} does not agree with the following row."
    for row in world.rows(names.READERS):
        if int(row.get("follows", {"N": "0"})["N"]) != counts[row["user_id"]["S"]]:
            yield f"The count of follows of {row['user_id']['S']} is not exact."


def a_last_post_reaches_every_follower_once(found: Evidence) -> Iterator[str]:
    """When all is quiet: who has an edge at any level, nobody else, and each is delivered once."""
    world = found.world
    wanted: dict[str, set[str]] = {
        deed.subject: set() for deed in world.history if deed.what in ("follow", "unfollow")
    }
    for row in world.rows(names.FOLLOWERS):
        publisher = ring.publisher_of(row["shard_id"]["S"])
        wanted[publisher].add(ring.follower_of(row["edge"]["S"]))
    posts: dict[str, str] = {}

    def post_all() -> None:
        posts.update({publisher: workload.last_post(world, publisher) for publisher in wanted})

    def post_on_stage(each: World) -> None:
        each.stage.enter("client publisher", post_all)

    world.run(post_on_stage)
    fresh = Evidence(world)
    for publisher, ref_id in posts.items():
        reached = {user for user, each in fresh.entries if each == ref_id}
        if wrong := reached ^ wanted[publisher]:
            yield f"{ref_id} reached {sorted(reached)}: wrong about {sorted(wrong)}."
        delivered = int(fresh.fanouts[ref_id].get("delivered", {"N": "0"})["N"])
        if delivered != len(wanted[publisher]):
            yield f"{ref_id} was delivered {delivered} times to {len(wanted[publisher])}."


def dead_letters_are_what_nobody_could_read(found: Evidence) -> Iterator[str]:
    """Noise ends there at once, and nothing else before it was tried as often as allowed."""
    world = found.world
    bodies = {message.body for _, message in world.dead_letters()}
    for body in sorted(world.noise - bodies):
        yield f"A message that breaks the contract is not a dead letter: {body[:80]}."
    for queue, message in world.dead_letters():
        # SQS moved it, or DELIVER after its last hand-back.
        tried_out = message.dead_letter_source or f'"hops":{MAX_HOPS}' in message.body
        if message.body not in world.noise and not (tried_out and world.faults.injected):
            yield f"A dead letter of {queue.name} that was not tried out: {message.body[:80]}."


def what_needs_no_sweeper_is_mended_on_the_spot(found: Evidence) -> Iterator[str]:
    """Unsent entries, left-over requests and duplicates are dealt with by who meets them."""
    world = found.world
    harmless = {"partial", "duplicated", "skewed", "unsent"}
    if world.mended and not world.faults.injected.keys() - harmless and not world.was_paused:
        yield f"SWEEP had to mend {world.mended} times what no crash explains."


def writes_are_in_proportion(found: Evidence) -> Iterator[str]:
    """Entries are put once, but for what was left over, lost, or repeated for a reason."""
    world = found.world
    if _was_sent_twice(world):
        return
    entries, puts, faults = len(found.entries), world.asked, world.faults.injected.keys()
    if not faults and puts > entries:
        yield f"Without any fault, {entries} entries took {puts} puts."
    # With 30 % left over each time an entry takes 1.4 puts; a few entries have their bad luck.
    if (
        faults <= {"partial", "skewed", "unsent"}
        and world.time_pressure == 1.0
        and puts > 2 * entries + 10
    ):
        yield f"With left-over requests alone, {entries} entries took {puts} puts."


def _was_sent_twice(world: World) -> bool:
    """Whether segments may have been sent twice without a fault.

    SWEEP may look just when a lane is resumed, and send what waits in it; and see AT_ONCE_SECONDS.
    """
    return world.was_paused or world.was_planned_twice


def stragglers_have_nobody_written_again(found: Evidence) -> Iterator[str]:
    """Where only a straggler or two hold segments up, each entry is written once, and all are."""
    world = found.world
    is_alone = world.faults.injected.keys() <= {"hot", "skewed"} and not _was_sent_twice(world)
    if not is_alone or len(world.faults.hot) > policy.MAX_STRAGGLERS:
        return
    entries, written = len(found.entries), world.meter.of(names.TIMELINES.name)
    if written != entries:
        yield f"Beside {len(world.faults.hot)} stragglers, {entries} entries took {written} writes."
    for ref_id, row in found.fanouts.items():
        if row["state"]["S"] != "complete":
            yield f"{ref_id} is {row['state']['S']}, though its stragglers could be written."


def nothing_was_seen_on_the_way(found: Evidence) -> Iterator[str]:
    """What shows only while it happens."""
    yield from found.world.seen


CHECKS: tuple[Callable[[Evidence], Iterator[str]], ...] = (
    no_acknowledged_follower_is_missed,
    nobody_gets_what_they_do_not_follow,
    who_follows_by_the_rows_has_it_and_nobody_else,
    every_accepted_post_is_delivered_or_visibly_not,
    what_was_retracted_first_is_not_delivered,
    the_ledger_tells_the_truth,
    timelines_show_each_post_once_newest_first_and_nothing_retracted,
    a_stored_post_keeps_its_first_answer,
    edges_agree_with_the_rows_that_decide,
    dead_letters_are_what_nobody_could_read,
    what_needs_no_sweeper_is_mended_on_the_spot,
    writes_are_in_proportion,
    stragglers_have_nobody_written_again,
    a_last_post_reaches_every_follower_once,
    nothing_was_seen_on_the_way,
)


def violations(world: World) -> list[str]:
    """Every violation of a run, with the name of the check."""
    found = Evidence(world)
    return [f"{check.__name__}: {line}" for check in CHECKS for line in check(found)]

"""Who has an entry, and who has none.

A follow or unfollow that overlaps the acceptance of a post, or was never acknowledged, may count
either way: such pairs are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from fanfold import names
from simulation import requests
from simulation.checks.evidence import Evidence
from simulation.observers import pair_of
from simulation.world import accepted_ms


def no_acknowledged_follower_is_missed(found: Evidence) -> Iterator[str]:
    """Every follower whose follow was acknowledged before `accepted_at` has the entry."""
    for ref_id, row, publisher in found.complete():
        for user in found.history.users():
            follows = found.history.is_certain("follow", user, publisher, accepted_ms(row))
            is_missed = follows and not found.entries[user, ref_id]
            if is_missed and not found.is_harmed(user, row):
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
        if found.is_harmed(user, row):
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
            if found.is_harmed(user, row):
                continue
            has_entry = found.entries[user, ref_id] > 0
            if state == "followed" and not has_entry:
                yield f"{user} follows {publisher}, and has no entry of {ref_id}."
            if state != "followed" and has_entry and not found.has_late_edge(user, row):
                yield f"{user} does not follow {publisher}, and has {ref_id}."


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
            posts[publisher] = requests.by_http(world, publisher, f"{publisher}-last").subject

    world.run(lambda each: each.start_client("publisher", post_all))
    fresh = Evidence(world)
    for publisher, ref_id in posts.items():
        reached = {user for user, each in fresh.entries if each == ref_id}
        if wrong := reached ^ wanted[publisher]:
            yield f"{ref_id} reached {sorted(reached)}: wrong about {sorted(wrong)}."
        delivered = int(fresh.fanouts.get(ref_id, {}).get("delivered", {"N": "0"})["N"])
        if delivered != len(wanted[publisher]):
            yield f"{ref_id} was delivered {delivered} times to {len(wanted[publisher])}."

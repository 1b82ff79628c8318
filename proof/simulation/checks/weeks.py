"""Checks of a world that lives for weeks, by its clients' requests and answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from fanfold import names, times
from fanfold.channels.head import head_of
from fanfold.fanout.row import CHANNEL, COMPLETE, EXPIRED, STALLED
from proof.simulation.checks.evidence import Evidence
from proof.simulation.oracle.ids import DAY, SECOND, Between, Holder, Id, IdAttempt
from proof.simulation.world.long_world import DAY_SECONDS, LongWorld, Moment, Pair

# After this, everything with a time to live has expired, even with the longest retention.
LONGEST_SECONDS = (45 + 14 + 10 + 1) * DAY_SECONDS
# An unhindered fan-out is delivered in less, after a day of faults and two of calm.
SLOWEST_MS = 4 * DAY


@dataclass
class SeenMoment:
    """A moment, and the posts that each id may stand for then."""

    moment: Moment
    ids: dict[str, tuple[Holder | None, ...]]


@dataclass
class WeeksCourse:
    """The log of a world, as the oracle understands it."""

    seen: list[SeenMoment] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)

    def posts(self) -> Iterator[tuple[str, Holder, int]]:
        """Each promised post, and the number of the first moment after its promise."""
        known = set()
        for number, each in enumerate(self.seen):
            for ref_id, states in each.ids.items():
                holder = states[0]
                if len(states) > 1 or holder is None or not holder.wanted:
                    continue
                if holder.is_promised and (ref_id, holder) not in known:
                    known.add((ref_id, holder))
                    yield ref_id, holder, number

    def delivered(self, ref_id: str, holder: Holder, since: int) -> int | None:
        """The number of the first moment at which a post should have reached all followers."""
        for number in range(since, len(self.seen)):
            each = self.seen[number]
            if each.ids[ref_id] != (holder,):
                return None  # perhaps retracted
            if ref_id not in each.moment.hindered:
                return number
        return None

    def follows_throughout(
        self, user: str, publisher: str, holder: Holder, until: int
    ) -> bool | None:
        """Whether a user followed or not since before the acceptance; None if that changed."""
        before = [
            number
            for number in range(until + 1)
            if self.seen[number].moment.at.hi < holder.accepted.lo
        ]
        if not before:
            return None
        states = {
            publisher in self.seen[number].moment.follows.get(user, ())
            for number in range(before[-1], until + 1)
        }
        asked_for = any(
            (user, publisher) in self.seen[number].moment.asked_for
            for number in range(before[-1] + 1, until + 1)
        )
        return None if asked_for or len(states) > 1 else states.pop()


def course_of(found: Evidence) -> WeeksCourse:
    """Replay the log with the oracle."""
    ids: dict[str, Id] = defaultdict(Id)
    course = WeeksCourse()
    for each in _world(found).log:
        if isinstance(each, IdAttempt):
            course.unexplained += ids[each.ref_id].settle(each)
        else:
            states = {ref_id: tuple(known.states) for ref_id, known in ids.items()}
            course.seen.append(SeenMoment(each, states))
    return course


def ids_are_free_when_the_documents_say(found: Evidence) -> Iterator[str]:
    """Earlier requests explain every answer about an id."""
    yield from course_of(found).unexplained


def entries_show_their_own_posts(found: Evidence) -> Iterator[str]:
    """Each shown post is one that its publisher requested, under its current id, and once."""
    for each in course_of(found).seen:
        for user, lines in each.moment.shown.items():
            for line in lines:
                publisher, ref_id, published_at, title = line
                at = times.to_ms(published_at)
                if not any(
                    state
                    and state.wanted
                    and (state.wanted.publisher, state.wanted.title) == (publisher, title)
                    and state.published.has(at)
                    for state in each.ids.get(ref_id, ())
                ):
                    yield f"{user} is shown {line}, which {ref_id} does not stand for."
            if len({line[:3] for line in lines}) < len(lines):
                yield f"{user} is shown a post twice: {lines}."
            if lines != sorted(lines, key=lambda line: (line[2], line[1]), reverse=True):
                yield f"{user} is shown posts out of order: {lines}."


def no_entry_is_shown_after_its_time(found: Evidence) -> Iterator[str]:
    """None is older than the retention; one that was gone returns only if that was raised."""
    course, world = course_of(found), _world(found)
    for number, each in enumerate(course.seen):
        moment = each.moment
        retentions = [before.moment.retention_ms for before in course.seen[: number + 1]]
        filled_ms = max(retentions) if world.backfill else 0
        for user, lines in moment.shown.items():
            for line in lines:
                _, ref_id, published_at, _ = line
                at = times.to_ms(published_at)
                if at + moment.retention_ms < moment.at.lo - SECOND:
                    yield f"{user} is shown {line} after the retention."
                ends = [
                    # An entry from a backfill lives for the retention of its day.
                    max(state.entries_end.hi, state.published.hi + filled_ms)
                    for state in each.ids.get(ref_id, ())
                    if state and state.wanted
                ]
                if ends and max(ends) + world.ttl_seconds * 1000 + SECOND < moment.at.lo:
                    yield f"{user} is shown {line}, which DynamoDB should have deleted."
                may_fill = world.backfill > 0
                if number and _came_back(course, number, user, line, may_fill=may_fill):
                    yield f"{user} is shown {line} again, after it was gone."


def _came_back(
    course: WeeksCourse, number: int, user: str, line: tuple[str, str, str, str], *, may_fill: bool
) -> bool:
    """Whether an entry was shown, then gone, and is shown again without a raised retention.

    The same post may have been published again under a free id. An entry whose publisher was muted
    or not followed was hidden, not gone. And a backfill may bring it; after the retention was
    raised, even that of a late copy of a follow that changed nothing.
    """
    now, before = course.seen[number].moment, course.seen[number - 1].moment
    if user not in before.shown or line in before.shown[user]:
        return False
    if now.retention_ms > before.retention_ms or line[0] not in _visible(before, user):
        return False
    was_raised = any(each.moment.retention_ms < now.retention_ms for each in course.seen[:number])
    if may_fill and (was_raised or (user, line[0]) in now.asked_for):
        return False
    accepted = _accepted(course.seen[number], line[1])
    return any(
        line in each.moment.shown.get(user, ()) and accepted & _accepted(each, line[1])
        for each in course.seen[: number - 1]
    )


def _visible(moment: Moment, user: str) -> set[str]:
    """The publishers whose posts a user is shown at a moment."""
    return moment.follows[user] - moment.muted[user]


def _accepted(seen: SeenMoment, ref_id: str) -> set[Between]:
    """When the posts that an id may stand for at a moment were accepted."""
    return {state.accepted for state in seen.ids.get(ref_id, ()) if state and state.wanted}


def posts_are_shown_for_their_retention(found: Evidence) -> Iterator[str]:
    """A user who followed from before the acceptance until the delivery is shown the post."""
    course, world = course_of(found), _world(found)
    for ref_id, holder, since in course.posts():
        first = course.delivered(ref_id, holder, since)
        if first is None:
            continue
        owed = {
            user: course.follows_throughout(user, holder.publisher, holder, first)
            for user in world.users
        }
        for each in course.seen[first:]:
            moment = each.moment
            visible = min(holder.entries_end.lo, holder.published.lo + moment.retention_ms)
            if each.ids[ref_id] != (holder,) or moment.at.hi + 5 * SECOND >= visible:
                continue
            for user in moment.shown:
                has_it = any(line[:2] == (holder.publisher, ref_id) for line in moment.shown[user])
                # A user who has unfollowed or muted is shown it again later.
                is_shown = holder.publisher in _visible(moment, user)
                if owed[user] and is_shown and not has_it:
                    yield f"{user} follows {holder.publisher}, and is not shown {ref_id}."


def nobody_is_shown_what_they_did_not_follow(found: Evidence) -> Iterator[str]:
    """A user who has not followed since before the acceptance is not shown the post."""
    course = course_of(found)
    for ref_id, holder, since in course.posts():
        for number in range(since, len(course.seen)):
            moment = course.seen[number].moment
            for user, lines in moment.shown.items():
                if all(line[:2] != (holder.publisher, ref_id) for line in lines):
                    continue
                if course.follows_throughout(user, holder.publisher, holder, number) is False:
                    yield f"{user} does not follow {holder.publisher}, and is shown {ref_id}."


def nobody_is_shown_whom_they_do_not_follow(found: Evidence) -> Iterator[str]:
    """Posts of muted, never followed or unfollowed publishers are not shown, however long ago.

    Except, after the retention was raised, "entries again that had ended and that DynamoDB has not
    deleted yet": an operator should "run `fanfold doctor --whole --repair` then"
    (docs/operations.md), and none does here.
    """
    for each in course_of(found).seen:
        for user, lines in each.moment.shown.items():
            shown = {line[0] for line in lines}
            if muted := shown & each.moment.muted[user]:
                yield f"{user} is shown posts of {sorted(muted)}, and has muted them."
            lasting = {line[0] for line in lines if not _had_ended(each, line[1])}
            if others := lasting - each.moment.follows[user]:
                yield f"{user} is shown posts of {sorted(others)}, and does not follow them."


def _had_ended(seen: SeenMoment, ref_id: str) -> bool:
    """Whether the entries of a post have surely expired."""
    ends = [state.entries_end.hi for state in seen.ids.get(ref_id, ()) if state and state.wanted]
    return bool(ends) and max(ends) < seen.moment.at.lo


def follows_stay_as_they_were_asked_for(found: Evidence) -> Iterator[str]:
    """A follow changes only by a request, and then as requested.

    Old messages change nothing, even without the tombstone of the request that overtook them.
    """
    for before, after in pairwise(each.moment for each in course_of(found).seen):
        for (user, publisher), wanted in _changed(before.follows, after.follows, after.asked_for):
            has = not wanted
            yield f"{user} follows {publisher}: {has}, and {wanted} was asked for, or left."


def mutes_stay_as_they_were_asked_for(found: Evidence) -> Iterator[str]:
    """A mute changes only by a request, and not by a follow or an unfollow."""
    for before, after in pairwise(each.moment for each in course_of(found).seen):
        for (user, publisher), wanted in _changed(before.muted, after.muted, after.asked_for_mutes):
            has = not wanted
            yield f"{user} has muted {publisher}: {has}, and {wanted} was asked for, or left."


def _changed(
    before: dict[str, set[str]], after: dict[str, set[str]], asked_for: dict[Pair, bool | None]
) -> Iterator[tuple[Pair, bool]]:
    """The pairs that are neither as requested nor unchanged, and how they should be."""
    for user in before.keys() & after.keys():
        for publisher in sorted(before[user] | after[user] | {each for _, each in asked_for}):
            wanted = asked_for.get((user, publisher), publisher in before[user])
            if wanted is not None and (publisher in after[user]) is not wanted:
                yield (user, publisher), wanted


def deliveries_end_as_they_must(found: Evidence) -> Iterator[str]:
    """Complete and exactly counted, unless something lasting was in the way; else visibly not."""
    course, world = course_of(found), _world(found)
    ever: set[str] = set()
    for each in course.seen:
        moment = each.moment
        ever |= moment.hindered
        for ref_id, row in moment.fanouts.items():
            if row.is_open and ref_id not in moment.hindered:
                yield f"{ref_id} is {row.state}, and nothing is in its way."
            if row.state == STALLED and ref_id not in moment.spoilt:
                yield f"{ref_id} has stalled, and nothing of it was lost."
            if row.state == EXPIRED and row.expires_at * 1000 > moment.at.hi:
                yield f"{ref_id} has expired before its time."
    for ref_id, holder, since in course.posts():
        number = course.delivered(ref_id, holder, since)
        if number is None:
            continue
        moment = course.seen[number].moment
        row_or_none = moment.fanouts.get(ref_id)
        if row_or_none is None:
            if moment.at.hi < holder.ends.lo:
                yield f"{ref_id} was accepted, and the ledger does not know it."
            continue
        had_time = holder.entries_end.lo > holder.handled + SLOWEST_MS
        if row_or_none.state == EXPIRED and had_time and ref_id not in ever:
            yield f"{ref_id} has expired, and nothing was in its way."
        states = [
            course.follows_throughout(user, holder.publisher, holder, number)
            for user in world.users
        ]
        is_known = row_or_none.state == COMPLETE and None not in states
        if row_or_none.by == CHANNEL:
            continue  # followers are not counted
        if is_known and row_or_none.delivered != sum(map(bool, states)):
            followers = sum(map(bool, states))
            yield f"{ref_id} counts {row_or_none.delivered} entries for {followers} followers."


def rows_do_not_stay_for_ever(found: Evidence) -> Iterator[str]:
    """After all times to live, only follows, levels and counts are left."""
    world = _world(found)
    for table in (names.TIMELINES, names.POSTS, names.FANOUTS):
        for row in world.rows(table):
            if names.EXPIRES_AT not in row and not _is_kept(row):
                yield f"A row of {table.name} has no time to live: {row}."
    world.alive(lambda: world.pass_until(world.scheduler.now + LONGEST_SECONDS))
    for table in (names.TIMELINES, names.POSTS, names.FANOUTS, names.FOLLOWING):
        for row in world.rows(table):
            if not _is_kept(row):
                yield f"{table.name} keeps {row}."
    for row in world.rows(names.PUBLISHERS, having="channels"):
        demoted = [each for each in head_of(row).channels.values() if not each.is_active]
        if demoted:
            yield f"{names.PUBLISHERS.name} keeps {demoted}."
    world.clock.advance(2 * world.database.hooks.max_read_lag)  # the indexes lag behind
    for table in names.TABLES:
        for index in table.indexes:
            answer = world.dynamodb.scan(TableName=table.name, IndexName=index.name)
            if answer["Items"]:
                yield f"The index {index.name} keeps {answer['Items']}."
    followed = {
        (row["user_id"]["S"], row["publisher_id"]["S"]) for row in world.rows(names.FOLLOWING)
    }
    if followed ^ world.edges():
        yield f"Edges and follows differ: {sorted(followed ^ world.edges())}."


def _is_kept(row: dict[str, dict[str, str]]) -> bool:
    """Whether a row never expires: a follow, or the memory of SWEEP."""
    return row.get("state") == {"S": "followed"} or row.get("fanout_id") == {"S": "#sweep"}


def _world(found: Evidence) -> LongWorld:
    assert isinstance(found.world, LongWorld)
    return found.world

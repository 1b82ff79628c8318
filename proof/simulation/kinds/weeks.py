"""A world that lives for sixty days, small: two publishers, a few users, and what only time brings.

On some days somebody acts under faults: publishers use ids again, just before and after they are
free; users change their minds, mute, and messages of old requests come again; lanes are paused for
days, orders and rows are lost for days, the retention is changed. Then all becomes calm,
everybody reads, and days pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random

from fanfold import names
from fanfold.ids import ref_id_for
from proof.simulation.actors import promoters, returning
from proof.simulation.checks import entries, follows, judge, weeks
from proof.simulation.clients import requests
from proof.simulation.clients.reader_requests import muted
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.oracle.ids import Between, WantedPost
from proof.simulation.world.long_world import (
    DAY_SECONDS,
    KEPT_SECONDS,
    RETENTIONS,
    LongWorld,
    Moment,
)
from proof.simulation.world.world import World

DAYS = 60
MAX_VISITS = 12  # bounds what a world costs
KEYS = ("k0", "k1")
# The ref_ids that senders of messages choose, for any publisher.
REFS = ("q0", "q1")
# When somebody uses an id again, relative to when it becomes free: by then, DynamoDB has deleted
# none, some or all of the old rows.
AROUND_SECONDS = (-3_600.0, -1.0, 0.0, 1.0, 3_600.0, DAY_SECONDS, 2 * DAY_SECONDS)

# The share of worlds in which users turn away from publishers on most days.
HIDES = 0.5
# The share of them in which users also mute.
MUTES = 0.4

# The share of worlds of a stage with channels, and what it has of them.
CHANNELS = 0.4
THRESHOLDS, MOST, CONTAINERS = (2, 4, 1_000_000), 2, 2
PROMOTED = ("p0", "p0", "p1", "c0")

Act = Callable[[], object]


@dataclass
class Life:
    """The plan of one world, drawn as it runs."""

    world: LongWorld
    ends: list[tuple[float, Act]] = field(default_factory=list)  # when something lasting ends
    moments: list[tuple[float, str]] = field(default_factory=list)  # when an id becomes free
    titles: dict[str, list[WantedPost]] = field(default_factory=dict)  # asked for, by ref_id
    count: int = 0
    # In some worlds, users repeatedly unfollow and follow again.
    hides: bool = False
    mutes: bool = False
    channels: Random | None = None  # of a world with channels

    def __post_init__(self) -> None:
        drawn, world = self.world.drawn, self.world
        hides = Random(f"{world.seed} hides")
        self.hides = hides.random() < HIDES
        self.mutes = self.hides and hides.random() < MUTES
        world.publishers = ["p0", "p1"]
        world.users = [f"u{number}" for number in range(drawn.randint(2, 6))]
        self.keys = {
            ref_id_for(publisher, key): (publisher, key)
            for publisher in world.publishers
            for key in KEYS
        }
        channels = Random(f"{world.seed} stage of weeks")
        if channels.random() < CHANNELS:
            self.channels = channels
            world.channels.stage = ChannelSettings(
                channels.choice(THRESHOLDS), MOST, channels.choice((1, 3)), CONTAINERS
            )
        for _ in range(drawn.choice((0, 1, 1, 2))):
            at = drawn.uniform(1, DAYS) * DAY_SECONDS
            self.ends.append((at, lambda: self.world.deploy(drawn.choice(RETENTIONS))))

    def live(self) -> None:
        """Run the days."""
        self._visit([partial(self._first_follows, user) for user in self.world.users])
        for _ in range(MAX_VISITS):
            at = self._next()
            if at > DAYS * DAY_SECONDS:
                break
            self.world.pass_until(at)
            self._visit(self._drawn_acts())
        for _, end in sorted(self.ends, key=lambda each: each[0]):
            self.world.settle()
            end()
        self._visit([])

    def _next(self) -> float:
        """When somebody acts next, or something lasting ends."""
        world, now = self.world, self.world.scheduler.now
        at = now + world.drawn.expovariate(1 / (5 * DAY_SECONDS))
        frees = [each for each, _ in self.moments if each > now]
        if frees and world.drawn.random() < 0.5:
            at = max(now, world.drawn.choice(frees) + world.drawn.choice(AROUND_SECONDS))
        return min([at, *(end for end, _ in self.ends if end > now)])

    def _visit(self, acts: list[Act]) -> None:
        world = self.world
        world.settle()
        for each in [each for each in self.ends if each[0] <= world.scheduler.now]:
            self.ends.remove(each)
            each[1]()
        world.act(*((f"visitor {number}", act) for number, act in enumerate(acts)))
        world.settle()
        world.clock.advance(60.0)  # reads and caches of `timeline` may be seconds old
        moment = world.moment()

        def look(user: str) -> None:
            moment.shown[user] = [
                (each["publisher_id"], each["ref_id"], each["published_at"], each["body"]["title"])
                for each in requests.read(world, user, limit=100)
            ]
            moment.follows[user] = set(requests.following(world, user, limit=100))
            moment.muted[user] = muted(world, user, limit=100) if self.mutes else set()

        world.act(*((f"reader {user}", partial(look, user)) for user in world.users), faults=False)
        moment.at = Between(moment.at.lo, float(world.clock.now_ms()))

    # What is done on a day

    def _first_follows(self, user: str) -> None:
        for publisher in self.world.publishers:
            if self.world.drawn.random() < 0.8:
                returning.ask(self.world, (user, publisher), "follow", by_queue=False)

    def _drawn_acts(self) -> list[Act]:
        drawn, world = self.world.drawn, self.world
        blocked = {each.ref_id for each in world.attempts} | world.robbed.keys()
        again = [each for each in (*self.keys, *REFS) if each not in blocked]
        near = [ref for at, ref in self.moments if abs(at - world.scheduler.now) < 3 * DAY_SECONDS]
        used = dict.fromkeys([*near, *drawn.sample(again, min(len(again), 2))])
        acts: list[Act] = [partial(self._use, ref_id) for ref_id in used if ref_id in again]
        acts.append(self._publish_afresh)
        for _ in range(drawn.randint(0, 3)):
            pair = drawn.choice(world.users), drawn.choice(world.publishers)
            kind = drawn.choice(("follow", "follow", "unfollow"))
            by_queue = drawn.random() < 0.3
            acts.append(partial(returning.ask, world, pair, kind, by_queue=by_queue))
        if drawn.random() < 0.4:
            acts.append(lambda: returning.redrive_an_overtaken_request(world))
        if self.hides:
            user, publisher = drawn.choice(world.users), drawn.choice(world.publishers)
            acts.append(partial(self._turn, user, publisher))
        if self.channels:
            publisher, promotes = self.channels.choice(PROMOTED), self.channels.random() < 0.5
            flip = partial(promoters.flip, world, self.channels, publisher, promotes=promotes)
            acts.append(flip)
        if self.mutes:
            pair = drawn.choice(world.users), drawn.choice(world.publishers)
            acts.append(partial(returning.mute, world, pair, drawn.choice(("mute", "unmute"))))
        return acts

    def _turn(self, user: str, publisher: str) -> None:
        """Unfollow publishers who were followed at the last moment, and vice versa."""
        moments = [each for each in self.world.log if isinstance(each, Moment)]
        follows = publisher in moments[-1].follows[user]
        kind = "unfollow" if follows else "follow"
        returning.ask(self.world, (user, publisher), kind, by_queue=False)

    def _use(self, ref_id: str) -> None:
        """Publish or retract under an id that may have been used before."""
        drawn, world = self.world.drawn, self.world
        publisher, key = self.keys.get(ref_id, (drawn.choice(world.publishers), ""))
        if key and drawn.random() < 0.15:  # somebody else knows it
            publisher, key = next(each for each in world.publishers if each != publisher), ""
        what = drawn.random()
        if what < 0.2:
            by_queue = not key or drawn.random() < 0.3
            returning.retract(world, publisher, ref_id, by_queue=by_queue)
            self._note_end(ref_id, world.scheduler.now)
            return
        old = [each for each in self.titles.get(ref_id, []) if each.publisher == publisher]
        is_repeat = old and what < 0.45
        wanted = drawn.choice(old) if is_repeat else self._want(publisher, ref_id)
        if key:
            returning.publish(world, wanted, key)
        else:
            returning.publish_by_queue(world, wanted, ref_id)
        self._note_end(ref_id, world.scheduler.now)

    def _want(self, publisher: str, ref_id: str) -> WantedPost:
        self.count += 1
        wanted = returning.want(self.world, publisher, f"{ref_id} {publisher} {self.count}")
        self.titles.setdefault(ref_id, []).append(wanted)
        return wanted

    def _note_end(self, ref_id: str, at: float) -> None:
        """Plan that somebody uses an id again when it may be free."""
        kept = self.world.retention_days * DAY_SECONDS
        self.moments.append((at + kept + KEPT_SECONDS, ref_id))

    def _publish_afresh(self) -> None:
        """Publish under a new id; its delivery may fail for days."""
        drawn, world = self.world.drawn, self.world
        publisher, key = drawn.choice(world.publishers), f"n{self.count}"
        by_queue = drawn.random() < 0.4
        ref_id = f"{publisher}-{key}" if by_queue else ref_id_for(publisher, key)
        self.count += 1
        wanted = WantedPost(publisher, f"{ref_id} {self.count}")
        fate = drawn.choices(("delivered", "lost", "robbed", "paused"), (35, 30, 15, 20))[0]
        if fate == "lost" and not world.triggers.lost:
            world.triggers.lost.add(ref_id)
            world.spoilt.add(ref_id)
            self._ends(drawn.choice(returning.LOST_DAYS), self._find, ref_id)
        is_robbed = fate == "robbed" and not world.robbed and not world.triggers.paused
        if is_robbed:  # before its orders come out
            world.triggers.pause({each.name for each in names.LANES})
        elif fate == "paused" and not world.triggers.paused:
            self._ends(returning.pause(world), self._resume, ref_id)
        if by_queue:
            returning.publish_by_queue(world, wanted, ref_id)
        else:
            returning.publish(world, wanted, key)
        if is_robbed:
            world.scheduler.sleep(1.0)
            returning.rob(world, ref_id)
            world.triggers.resume()
            self._ends(drawn.choice(returning.ROBBED_DAYS), self._restore, ref_id)

    # What lasts, and ends

    def _ends(self, days: float, end: Callable[[str], object], ref_id: str) -> None:
        at = self.world.scheduler.now + days * DAY_SECONDS
        self.ends.append((at, partial(end, ref_id)))

    def _find(self, ref_id: str) -> None:
        self.world.triggers.lost.discard(ref_id)
        self._resend(ref_id)

    def _resume(self, _ref_id: str) -> None:
        self.world.triggers.resume()

    def _restore(self, ref_id: str) -> None:
        self.world.act(("operator", partial(returning.restore, self.world, ref_id)))
        self._resend(ref_id)

    def _resend(self, ref_id: str) -> None:
        if self.world.drawn.random() < 0.8:
            self.world.act(("operator", partial(returning.resend, self.world, ref_id)))


def live(world: World) -> None:
    """Run the world to its end."""
    assert isinstance(world, LongWorld)
    world.alive(Life(world).live)


KIND = Kind(
    "weeks",
    0.02,
    live,
    checks=(
        weeks.ids_are_free_when_the_documents_say,
        weeks.entries_show_their_own_posts,
        weeks.no_entry_is_shown_after_its_time,
        weeks.posts_are_shown_for_their_retention,
        weeks.nobody_is_shown_what_they_did_not_follow,
        weeks.nobody_is_shown_whom_they_do_not_follow,
        weeks.follows_stay_as_they_were_asked_for,
        weeks.mutes_stay_as_they_were_asked_for,
        weeks.deliveries_end_as_they_must,
        follows.follows_change_as_they_were_asked_to,
        follows.edges_agree_with_the_lists_of_follows,
        entries.a_last_post_reaches_every_follower_once,
        weeks.rows_do_not_stay_for_ever,
        judge.nothing_was_observed_during_the_run,
    ),
    make=LongWorld,
)

"""Posts that race with a follow: whether fan-out or backfill brings each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial

from fanfold import clock
from proof.bench.backfill.system import Follows, Way
from proof.simulation.timed.tables import FOLLOWER

# Between two races, each of another publisher.
APART_SECONDS = 4.0
# The post and the follow begin at any time of these.
WITHIN_SECONDS = 1.0
# Others who follow the publisher before, so that containers of RELATE remember a page of it.
OTHERS, BEFORE_SECONDS = 3, 3.0
# How late a post reaches the outbox: log-normal, and one in a hundred takes more than a second.
LAG_MEDIAN_SECONDS, LAG_SIGMA = 0.1, 1.0
# By then, the last second pass is over.
SECOND_LOOK_SECONDS = 30.0
CAPACITY = 4_000


@dataclass
class Race:
    user: str
    publisher: str
    ref_id: str
    accepted_at: float = math.inf
    acknowledged_at: float = math.inf

    @property
    def is_promised(self) -> bool:
        """Whether its fan-out alone has to bring the post."""
        return self.acknowledged_at < self.accepted_at


@dataclass
class Raced:
    """What became of the posts, by the order of the two acknowledgements."""

    promised: int = 0
    promised_missed: int = 0
    raced: int = 0
    missed: int = 0
    races: list[Race] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of missed posts among those accepted before the follow was answered."""
        return self.missed / max(1, self.raced)


def race(way: Way, races: int) -> Raced:
    """Let users follow publishers who are just posting."""
    system, found = Follows(CAPACITY, way=way, seed=1), Raced()
    random, scheduler = system.random, system.scheduler
    system.database.hooks.index_lag = lambda _table, _index: random.lognormvariate(
        math.log(LAG_MEDIAN_SECONDS), LAG_SIGMA
    )
    with system.virtual_time(), way.installed():
        for number in range(races):
            each = Race(FOLLOWER.format(number), f"ada{number:05d}", f"9057{number:05d}")
            found.races.append(each)
            begin = BEFORE_SECONDS + APART_SECONDS * number
            for other in range(OTHERS):
                user = FOLLOWER.format(1_000_000 + OTHERS * number + other)
                at = begin - random.uniform(0, BEFORE_SECONDS)
                _at(system, at, partial(_follow, system, user, each.publisher))
            _at(system, begin + random.uniform(0, WITHIN_SECONDS), partial(_race, system, each))
            post_at = begin + random.uniform(0, WITHIN_SECONDS)
            scheduler.at(post_at, partial(_post, system, each))
        end = BEFORE_SECONDS + APART_SECONDS * races + SECOND_LOOK_SECONDS
        scheduler.run_to(end)
    for each in found.races:
        is_missed = each.user not in system.written(each.ref_id).users
        if each.is_promised:
            found.promised += 1
            found.promised_missed += is_missed
        else:
            found.raced += 1
            found.missed += is_missed
    return found


def _at(system: Follows, when: float, run: partial[None]) -> None:
    system.scheduler.at(when, partial(system.scheduler.start, run))


def _follow(system: Follows, user: str, publisher: str) -> None:
    system.door.follow(user, publisher, asked_at=clock.now_ms())


def _race(system: Follows, race: Race) -> None:
    _follow(system, race.user, race.publisher)
    race.acknowledged_at = system.scheduler.now


def _post(system: Follows, race: Race) -> None:
    race.accepted_at = system.scheduler.now
    system.publish(race.publisher, race.ref_id)

"""What publishers decide and see of their followers, and what readers see of publishers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from proof.simulation.oracle.audience import BY_DEFAULT
from proof.simulation.oracle.follows import Asked, Sighting

Pair = tuple[str, str]  # user, publisher


@dataclass(frozen=True)
class Look:
    """What a user was shown of a publisher apart from timelines: posts or followers, or nothing."""

    user: str
    publisher: str
    what: str
    begun_ms: float
    ended_ms: float
    is_open: bool
    refs: frozenset[str] = frozenset()  # the posts that were shown, or the one that was not


@dataclass(frozen=True)
class Listed:
    """A whole list of requests or blocks: the relations in it, and those that may be."""

    owner: str
    begun_ms: float
    ended_ms: float
    found: frozenset[Pair]
    among: frozenset[int]  # how those in it are
    is_of_user: bool  # of a user's own requests; else of a publisher


@dataclass
class AudienceHistory:
    """All that was asked and answered in a run about who may follow whom."""

    is_private_by_default: bool = False
    # By publisher, as `Asked`, in which "follow" means "go private"; and what it was told since.
    choices: dict[str, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    told: dict[str, list[Sighting]] = field(default_factory=lambda: defaultdict(list))
    # What an answer says of a relation, unless its request came late.
    answers: list[tuple[Pair, Asked, frozenset[int]]] = field(default_factory=list)
    seen: dict[Pair, list[Sighting]] = field(default_factory=lambda: defaultdict(list))
    looks: list[Look] = field(default_factory=list)
    lists: list[Listed] = field(default_factory=list)
    deciding: set[str] = field(default_factory=set)  # publishers who have decided anything

    def choices_of(self, publisher: str) -> list[Asked]:
        """What a publisher has chosen, and the stage before."""
        by_default = [BY_DEFAULT] if self.is_private_by_default else []
        return [*by_default, *self.choices.get(publisher, [])]

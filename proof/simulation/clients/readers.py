"""Readers' requests other than pages, as they know them: mutes, lists, markers, unread counts."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proof.simulation.oracle.follows import Asked

if TYPE_CHECKING:
    from proof.simulation.clients.history import Page

FOLLOWING, MUTED = "following", "muted"


@dataclass(frozen=True)
class Listing:
    """A whole list of publishers, read page by page."""

    user: str
    name: str
    begun_ms: float
    ended_ms: float
    publishers: frozenset[str]
    count: int = 0  # as its last page says; lists of mutes do not


@dataclass(eq=False)
class Marking:
    """An attempt to read the marker, or to move it to the sort key `asked`."""

    user: str
    begun_ms: float
    asked: str = ""
    told: str | None = None  # the marker, empty if there is none; None without an answer
    ended_ms: float = math.inf


@dataclass(frozen=True)
class UnreadAnswer:
    """An answer with the count of unread entries."""

    user: str
    begun_ms: float
    ended_ms: float
    count: int
    has_more: bool


@dataclass
class ReaderHistory:
    """All that readers were answered in a run."""

    # Mutes by user and publisher, as `Asked`, in which "follow" means "mute".
    mutes: dict[tuple[str, str], list[Asked]] = field(default_factory=lambda: defaultdict(list))
    ids: list[list[Page]] = field(default_factory=list)  # the pages of readings without content
    listings: list[Listing] = field(default_factory=list)
    markings: list[Marking] = field(default_factory=list)
    unread: list[UnreadAnswer] = field(default_factory=list)

    def has_muted(self, user: str) -> bool:
        """Whether a user ever tried to mute anybody."""
        return any(owner == user for owner, _ in self.mutes)

    def has_marked(self, user: str) -> bool:
        """Whether a user ever tried to move the marker."""
        return any(each.user == user and each.asked for each in self.markings)

"""Counts what passes on the way to DynamoDB: entries by cell of the ring, and refused batches.

The page draws these counts; the verdict does not use them.
"""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from fanfold.follows import ring
from fanfold.ids import split_sort_key
from fanfold_cli.console.views import CELLS, Ring
from proof.model.endpoint import Answer, Backend, Request
from proof.model.faults import BATCH, NONE, FaultyBatches, Rates

# Together 40 % of the batches: half are refused entirely, half in part.
THROTTLED = Rates(throttled=0.2, partial=0.2)


def cell_of(user: str) -> int:
    """The follower's cell of the ring: the first byte of the hash."""
    return int(ring.position(user)[:2], 16)


@dataclass
class Post:
    """The entries of one post that have passed: the users, and counts by cell."""

    users: set[str] = field(default_factory=set)
    have: Counter[int] = field(default_factory=Counter)
    again: Counter[int] = field(default_factory=Counter)
    refused: Counter[int] = field(default_factory=Counter)


class Meter:
    """A backend in front of the engine's, which can refuse batches."""

    def __init__(self, backend: Backend, table: str) -> None:
        self._faulty, self._table = FaultyBatches(backend, NONE, seed=1), table
        self._posts: dict[str, Post] = defaultdict(Post)
        self._lock = threading.Lock()
        self.refused = self.rewritten = self.written = 0

    @property
    def is_throttled(self) -> bool:
        return self._faulty.rates != NONE

    def throttle(self, on: bool) -> None:
        self._faulty.rates = THROTTLED if on else NONE

    def answer(self, request: Request) -> Answer:
        """Answer a call as the engine does, and count its entries; may raise `Lost`."""
        answer = self._faulty.answer(request)
        if request.operation == BATCH:
            puts = self._puts(json.loads(request.body)["RequestItems"])
            left = puts
            if answer.status == HTTPStatus.OK:
                left = self._puts(json.loads(answer.body).get("UnprocessedItems", {}))
            self._count(puts, set(left))
        return answer

    def _puts(self, tables: dict[str, Any]) -> list[tuple[str, str]]:
        """User and post of each entry in a batch."""
        writes = [each["PutRequest"]["Item"] for each in tables.get(self._table, ())]
        return [(item["user_id"]["S"], split_sort_key(item["sort_key"]["S"])[1]) for item in writes]

    def _count(self, puts: list[tuple[str, str]], left: set[tuple[str, str]]) -> None:
        with self._lock:
            self.refused += bool(left)
            for user, ref_id in puts:
                post, cell = self._posts[ref_id], cell_of(user)
                if (user, ref_id) in left:
                    post.refused[cell] += 1
                elif user in post.users:
                    post.again[cell] += 1
                    self.rewritten += 1
                else:
                    post.users.add(user)
                    post.have[cell] += 1
                    self.written += 1

    def filled(self, view: Ring, wanted: Counter[int]) -> Ring:
        """The ring with the entries that have passed; `wanted` are its followers by cell."""
        cells = range(CELLS)
        with self._lock:
            post = self._posts[view.ref_id]
            # A cell without followers is full only once all have the post.
            nobody = float(len(post.users) >= wanted.total())
            return replace(
                view,
                followers=wanted.total(),
                delivered=len(post.users),
                have=tuple(
                    _share(post.have[cell], wanted[cell]) if wanted[cell] else nobody
                    for cell in cells
                ),
                again=tuple(_share(post.again[cell], wanted[cell]) for cell in cells),
                refused=tuple(post.refused[cell] for cell in cells),
            )

    def passed(self, ref_id: str) -> int:
        with self._lock:
            return len(self._posts[ref_id].users)


def _share(count: int, of: int) -> float:
    return round(min(1.0, count / of), 3) if of else 0.0

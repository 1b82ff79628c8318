"""Known differences between an engine and the model, and why the model is right.

DynamoDB Local agrees with the model in all of them, except for its own, which come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.compat.engines import DYNAMODB_LOCAL, MINISTACK


@dataclass(frozen=True)
class Gap:
    """Calls of a program, counted from 0, that an engine answers differently."""

    engine: str
    program: str
    calls: tuple[int, ...]
    because: str

    def covers(self, engine: str, program: str) -> bool:
        return (self.engine, self.program) == (engine, program)


LENIENT = "it does not check this, and goes on"
OTHER_NAME = "it refuses this with another error code"
PAGES = "its pages end elsewhere, and it announces a next page only if there is one"
STORED = "it stored what it should have refused before"
INDEX_KEY = (
    "it lets an update give an index key another type; the API reference of TransactWriteItems "
    "names 'secondary index key to unsupported type' as a refusal"
)
NOT_CANCELLED = (
    "it refuses the call; the API reference has TransactionCanceledException with the reason "
    "ValidationError and these very messages"
)


def _gaps(engine: str, because: str, programs: Mapping[str, tuple[int, ...]]) -> Iterator[Gap]:
    for program, calls in programs.items():
        yield Gap(engine, program, calls, because)


GAPS: tuple[Gap, ...] = (
    *_gaps(
        MINISTACK,
        LENIENT,
        {
            "condition: amount = amount": (1,),
            "update: SET amount = amount + :n with {'n': '3'}": (1,),
            "update: SET word = list_append(word, :more) with {'more': ['s']}": (1,),
            "update: SET tree[0] = :x with {'x': 'new'}": (1,),
            "update: REMOVE nowhere.leaf": (1,),
            "update: ADD nowhere.fresh :n with {'n': 2}": (1,),
            "update: SET amount = :n ADD amount :n with {'n': 1}": (1,),
            "update: SET tree.leaf = :n REMOVE tree with {'n': 1}": (1,),
            "update: SET amount = :n SET word = :n with {'n': 1}": (1,),
            "key condition: sort_key <> :a with {':a': '03'}": (1,),
            "key condition: sort_key = :a OR sort_key = :b with {':a': '03', ':b': '04'}": (1,),
            "key condition: contains(sort_key, :a) with {':a': '3'}": (1,),
            "a range of edges goes on beyond a key that need not be there": (5,),
            "a start key must have the form and the partition of the query": (3, 4, 5),
            "a filter leaves out after the limit": (3,),
            "the outbox answers keys alone, newest first": (7, 8),
            "a transaction that cannot be read is refused": (0, 1),
        },
    ),
    *_gaps(
        MINISTACK,
        OTHER_NAME,
        {
            "condition: attribute_type(tags, :t) with {'t': 'XX'}": (1,),
            "condition: begins_with(amount, :p) with {'p': '7'}": (1,),
            "condition: flag < :f with {'f': True}": (1,),
            "condition: amount BETWEEN :a AND :b with {'a': 1, 'b': '7'}": (1,),
        },
    ),
    *_gaps(MINISTACK, PAGES, {"a page ends with the item that makes it 1 MB": (4,)}),
    *_gaps(
        MINISTACK,
        STORED,
        {
            "update: SET word = list_append(word, :more) with {'more': ['s']}": (2,),
            "update: ADD nowhere.fresh :n with {'n': 2}": (2,),
            "update: SET amount = :n ADD amount :n with {'n': 1}": (2,),
            "update: SET tree.leaf = :n REMOVE tree with {'n': 1}": (2,),
            "update: SET amount = :n SET word = :n with {'n': 1}": (2,),
        },
    ),
    *_gaps(
        DYNAMODB_LOCAL, INDEX_KEY, {"an index key must have its type and may not be empty": (3, 5)}
    ),
    *_gaps(
        DYNAMODB_LOCAL,
        NOT_CANCELLED,
        {"an update that does not fit its item cancels the transaction": (1, 2)},
    ),
)

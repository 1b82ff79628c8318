"""Known differences between an engine and the model, and why the model is right.

DynamoDB Local agrees with the model in all of them, except for its own, which come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.compat.engines import DYNAMODB_LOCAL, MINISTACK, MOTO


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
BREAKS = "it breaks down over this request instead of refusing it"
OTHER_NAME = "it refuses this with another error code"
STRICT = "it does not support this form, or not all of its answer"
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
        MOTO,
        LENIENT,
        {
            "a set with a member twice is refused": (0,),
            "a set with one number in two forms is refused": (0,),
            "a number of 39 digits is refused": (0,),
            "a number too large is refused": (0,),
            "a value of two types is refused": (0,),
            "an item grows up to 400 KB": (1,),
            "a projection may not overlap itself": (1, 4, 5),
            "a key of another type is not asked for": (0,),
            "condition: amount = amount": (1,),
            "condition: ": (1,),
            "update: SET word.fresh = :x with {'x': 'new'}": (1,),
            "update: SET amount = :n + :n + :n with {'n': 1}": (1,),
            "update: SET amount = :n with {'n': Raw(content={'SS': []})}": (1,),
            "key condition: sort_key BETWEEN :a AND :b with {':a': '05', ':b': '03'}": (1,),
            "key condition: sort_key > :a AND sort_key < :b with {':a': '03', ':b': '05'}": (1,),
            "a range of edges goes on beyond a key that need not be there": (5, 7, 8, 9, 10),
            "a start key must have the form and the partition of the query": (2, 4, 5),
            "a query needs its partition key, and one only": (2, 3, 5),
            "a filter leaves out after the limit": (3,),
            "the outbox answers keys alone, newest first": (7,),
            "an index key must have its type and may not be empty": (0,),
            "a batch with a key twice is refused as a whole": (0,),
            "a batch that puts and deletes one key is refused": (0,),
            "a batch takes 25": (1,),
            "an empty batch is refused": (0, 1),
        },
    ),
    *_gaps(
        MOTO,
        BREAKS,
        {
            "condition: size(amount) = :n with {'n': 1}": (1,),
            "condition: size(nowhere) = :n with {'n': 0}": (1,),
            "condition: amount < :n with {'n': '8'}": (1,),
            "condition: amount BETWEEN :a AND :b with {'a': 1, 'b': '7'}": (1,),
            "condition: (amount = :n with {'n': 7}": (1,),
            "condition: amount = :n AND with {'n': 7}": (1,),
            "condition: amount == :n with {'n': 7}": (1,),
            "condition: amount": (1,),
            "condition: size(amount)": (1,),
            "condition: attribute_exists(:n) with {'n': 7}": (1,),
            "condition: attribute_exists(amount, word)": (1,),
            "condition: contains(word)": (1,),
            "condition: Contains(word, :t) with {'t': 'ell'}": (1,),
            "condition: zähler = :n with {'n': 1}": (1,),
            "condition: amount = :missing": (1,),
            "condition: #x = :n with {'n': 7}": (1,),
            "update: REMOVE word.leaf": (1,),
            "update: SET #n = :n with {'n': 1}": (1,),
            "update: SET amount = amount + :n with {'n': Raw(content={'N': '1e126'})}": (1,),
            "key condition: sort_key <> :a with {':a': '03'}": (1,),
            "key condition: sort_key = :a OR sort_key = :b with {':a': '03', ':b': '04'}": (1,),
            "key condition: NOT sort_key = :a with {':a': '03'}": (1,),
            "key condition: sort_key > :a with {':a': 3}": (1,),
            "key condition: sort_key IN (:a) with {':a': '03'}": (1,),
            "a start key must have the form and the partition of the query": (1, 3),
            "a transaction that cannot be read is refused": (2,),
        },
    ),
    *_gaps(
        MOTO,
        OTHER_NAME,
        {
            "condition: attribute_type(tags, :t) with {'t': 'XX'}": (1,),
            "condition: begins_with(word, :p) with {'p': 7}": (1,),
            "condition: flag < :f with {'f': True}": (1,),
            "condition: amount BETWEEN :a AND :b with {'a': 8, 'b': 1}": (1,),
            "condition: amount = 7": (1,),
            "condition: _word = :n with {'n': 7}": (1,),
            "the outbox answers keys alone, newest first": (9,),
            "an update that does not fit its item cancels the transaction": (1, 2),
            "a transaction that cannot be read is refused": (0,),
        },
    ),
    *_gaps(
        MOTO,
        STRICT,
        {
            "an item may have 400 KB with its names": (0,),
            "an item grows up to 400 KB": (0,),
            "a projection takes paths": (1, 2, 4, 5),
            "condition: NOT NOT flag = :f with {'f': True}": (1,),
            "update: SET amount = (amount + :n) with {'n': 1}": (1,),
            "an update of nothing makes the item": (0,),
            "an update answers UPDATED_NEW": (0,),
            "key condition: :a > sort_key with {':a': '03'}": (1,),
        },
    ),
    *_gaps(
        MOTO,
        PAGES,
        {
            "a range is read in order, both ways, in pages": (5,),
            "a page ends with the item that makes it 1 MB": (4,),
            "follows change by version with their count": (23, 24),
            "timelines take entries and answer pages": (14,),
            "an outbox is read in pages both ways": (14,),
        },
    ),
    *_gaps(
        MOTO,
        STORED,
        {
            "a set with a member twice is refused": (1,),
            "a set with one number in two forms is refused": (1,),
            "a number of 39 digits is refused": (1,),
            "a number too large is refused": (1,),
            "a value of two types is refused": (1,),
            "update: SET amount = :n + :n + :n with {'n': 1}": (2,),
            "update: SET amount = (amount + :n) with {'n': 1}": (2,),
            "update: SET amount = :n with {'n': Raw(content={'SS': []})}": (2,),
            "a batch with a key twice is refused as a whole": (1,),
            "one wrong item spoils the batch": (2,),
        },
    ),
    *_gaps(
        MINISTACK,
        LENIENT,
        {
            "a projection may not overlap itself": (4,),
            "condition: amount = amount": (1,),
            "condition: Contains(word, :t) with {'t': 'ell'}": (1,),
            "condition: zähler = :n with {'n': 1}": (1,),
            "update: SET amount = amount + :n with {'n': '3'}": (1,),
            "update: SET word = word + :n with {'n': 3}": (1,),
            "update: SET word = list_append(word, :more) with {'more': ['s']}": (1,),
            "update: SET tree[0] = :x with {'x': 'new'}": (1,),
            "update: REMOVE nowhere.leaf": (1,),
            "update: REMOVE word.leaf": (1,),
            "update: ADD nowhere.fresh :n with {'n': 2}": (1,),
            "update: SET amount = :n ADD amount :n with {'n': 1}": (1,),
            "update: SET tree.leaf = :n REMOVE tree with {'n': 1}": (1,),
            "update: SET tree.leaf = :n, tree[1] = :n with {'n': 1}": (1,),
            "update: SET amount = :n SET word = :n with {'n': 1}": (1,),
            "update: SET amount = :n, with {'n': 1}": (1,),
            "update: SET amount :n with {'n': 1}": (1,),
            "update: SET amount = :n + :n + :n with {'n': 1}": (1,),
            "update: SET amount = if_not_exists(:n, :n) with {'n': 1}": (1,),
            "update: SET amount = amount * :n with {'n': 1}": (1,),
            "key condition: sort_key <> :a with {':a': '03'}": (1,),
            "key condition: sort_key = :a OR sort_key = :b with {':a': '03', ':b': '04'}": (1,),
            "key condition: NOT sort_key = :a with {':a': '03'}": (1,),
            "key condition: contains(sort_key, :a) with {':a': '3'}": (1,),
            "key condition: attribute_exists(sort_key)": (1,),
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
            "condition: _word = :n with {'n': 7}": (1,),
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
            "update: SET amount = :n, with {'n': 1}": (2,),
            "update: SET amount = :n + :n + :n with {'n': 1}": (2,),
            "update: SET amount = if_not_exists(:n, :n) with {'n': 1}": (2,),
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

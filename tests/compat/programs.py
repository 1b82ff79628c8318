"""Programs of single calls, each about one rule of DynamoDB, for every engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.compat.calls import (
    Call,
    Program,
    Raw,
    batch,
    batch_delete,
    batch_get,
    batch_put,
    check,
    delete,
    get,
    program,
    put,
    query,
    scan,
    transact,
    update,
)

ANA = {"user_id": "ana"}
PLAN = {"fanout_id": "post-1"}


def entry(user: str, sort_key: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user, "sort_key": sort_key, "publisher_id": "pub", **more}


def of_ana(**more: Any) -> Call:
    """A query of ana's timeline."""
    values = {**ALL_OF_ANA, **more.pop("values", {})}
    return query("Timelines", "user_id = :user", values=values, **more)


def outbox(condition: str = "publisher_id = :p", **more: Any) -> Call:
    """A query of the index by publisher."""
    return query("Posts", condition, values={":p": "pub"}, index="outbox", **more)


def edges(**more: Any) -> Call:
    """A query of a range of edges."""
    values = {":shard": "p", ":lo": "2", ":hi": "6"}
    condition = "shard_id = :shard AND edge BETWEEN :lo AND :hi"
    return query("Followers", condition, values=values, **more)


def follows(publisher: str, **more: Any) -> Call:
    """The row of ana's follow, which must not be there yet."""
    return update(
        "Following",
        {**ANA, "publisher_id": publisher},
        "SET version = :one",
        condition="attribute_not_exists(user_id)",
        values={":one": 1},
        **more,
    )


def counts_follow(**more: Any) -> Call:
    """The number of ana's follows, which has to be 0 at most."""
    return update(
        "Readers",
        ANA,
        "ADD follows :more",
        condition="attribute_not_exists(follows) OR follows <= :room",
        values={":more": 1, ":room": 0},
        **more,
    )


def _colons(values: dict[str, Any]) -> dict[str, Any]:
    return {"values": {f":{name}": value for name, value in values.items()}} if values else {}


def tries(expression: str, **values: Any) -> Call:
    """An update of the item that `SOMETHING` puts."""
    return update("Readers", ANA, expression, **_colons(values))


def texts(*each: tuple[str, dict[str, Any]]) -> Sequence[tuple[str, dict[str, Any]]]:
    """Expressions, each with the values of its placeholders."""
    return each


def shown(values: dict[str, Any]) -> str:
    """The values of a program, as its name has them."""
    found = [f"{name!r}: {_in_order(value)}" for name, value in values.items()]
    return f" with {{{', '.join(found)}}}" if found else ""


def _in_order(value: Any) -> str:
    """The value as text; that of a set has its members in order."""
    if isinstance(value, set):
        return f"{{{', '.join(map(repr, sorted(value)))}}}"
    return repr(value)


def asks(condition: str, **values: Any) -> Call:
    """A condition on the item that `SOMETHING` puts, without changing it."""
    more = _colons(values)
    return update(
        "Readers", ANA, "REMOVE nothing_at_all", condition=condition, returns="NONE", **more
    )


SOMETHING = put(
    "Readers",
    {
        **ANA,
        "word": "hello",
        "count": Raw({"N": "7"}),
        "amount": 7,
        "tags": {"a", "b"},
        "numbers": {1, 2, 3},
        "list": ["x", 2, "z"],
        "tree": {"leaf": 1, "deep": {"er": "y"}},
        "row": ["p", "q"],
        "flag": True,
        "nothing": None,
        "blob": b"\x00\x01",
        "zähler": 1,
    },
)
FOUND = get("Readers", ANA)
HALF = [entry("ana", f"{n:02}") for n in range(10)]
ALL_OF_ANA = {":user": "ana"}

WRONG_VALUES: dict[str, dict[str, Any]] = {
    "an empty set of strings": {"SS": []},
    "an empty set of numbers": {"NS": []},
    "a set with a member twice": {"SS": ["a", "a"]},
    "a number of 39 digits": {"N": "1" * 39},
    "a number too large": {"N": "1e126"},
    "a value of two types": {"S": "a", "N": "1"},
}

PUTS = [
    program(
        "a put on condition keeps the first and can answer it",
        put("Posts", {"ref_id": "p", "n": 1}, condition="attribute_not_exists(ref_id)"),
        put("Posts", {"ref_id": "p", "n": 2}, condition="attribute_not_exists(ref_id)", old=True),
        put("Posts", {"ref_id": "p", "n": 2}, condition="attribute_not_exists(ref_id)"),
        get("Posts", {"ref_id": "p"}),
    ),
    program(
        "a put answers what it replaced if asked",
        put("Readers", {**ANA, "n": 1}, returns="ALL_OLD"),
        put("Readers", {**ANA, "n": 2}, returns="ALL_OLD"),
        put("Readers", {**ANA, "n": 3}, returns="ALL_NEW"),
    ),
    program("every type comes back as it was put", SOMETHING, FOUND),
    program(
        "numbers come back in one form",
        put(
            "Readers",
            {
                **ANA,
                "a": Raw({"N": "007.50"}),
                "b": Raw({"N": "-0"}),
                "c": Raw({"N": "1e3"}),
                "d": Raw({"N": "12345678901234567890123456789012345678"}),
                "e": Raw({"N": "0.000001"}),
            },
        ),
        FOUND,
    ),
    *(
        program(f"{what} is refused", put("Readers", {**ANA, "x": Raw(value)}), FOUND)
        for what, value in WRONG_VALUES.items()
    ),
    program(
        "an empty string and an empty map are values", put("Readers", {**ANA, "s": "", "m": {}})
    ),
    program("an item without its key is refused", put("Timelines", {"user_id": "ana"})),
    program("a key of another type is refused", put("Timelines", entry("ana", 7))),  # type: ignore[arg-type]
    program(
        "an empty key is refused",
        put("Timelines", entry("", "1")),
        put("Timelines", entry("a", "")),
    ),
    program(
        "a partition key may have 2,048 bytes",
        *(put("Readers", {"user_id": "k" * n}) for n in (2048, 2049)),
    ),
    program(
        "a sort key may have 1,024 bytes",
        *(put("Timelines", entry("a", "k" * n)) for n in (1024, 1025)),
    ),
    program(
        "an item may have 400 KB with its names",
        put("Readers", {"user_id": "a", "x": "y" * (400 * 1024 - 9)}),
        put("Readers", {"user_id": "a", "x": "y" * (400 * 1024 - 8)}),
    ),
    program("a table that is not there is refused", put("Nowhere", ANA), get("Nowhere", ANA)),
]

GETS = [
    program("an item that is not there is no item", get("Readers", ANA)),
    program(
        "a projection takes paths",
        SOMETHING,
        *(
            get("Readers", ANA, project=paths, names={"#l": "list"})
            for paths in (
                "#l[0], word",
                "#l[2], #l[0]",
                "tree.leaf, #l",
                "tree.nowhere, #l[9]",
                "word.x, #l[0].y",
            )
        ),
    ),
    program(
        "a key with too much or too little is refused",
        get("Timelines", ANA),
        get("Readers", entry("ana", "1")),
    ),
    program(
        "a placeholder that is not used is refused",
        get("Readers", ANA, project="word", names={"#w": "word"}),
        get("Readers", ANA, names={"#w": "word"}),
    ),
]

DELETES = [
    program(
        "a delete answers what it deleted if asked",
        SOMETHING,
        delete("Readers", ANA, returns="ALL_OLD"),
        delete("Readers", ANA, returns="ALL_OLD"),
        FOUND,
    ),
    program(
        "a delete on condition",
        put("Followers", {"shard_id": "p", "edge": "e", "version": 3}),
        *(
            delete(
                "Followers",
                {"shard_id": "p", "edge": "e"},
                condition="attribute_not_exists(edge) OR version <= :v",
                values={":v": version},
                old=True,
            )
            for version in (2, 3, 3)
        ),
    ),
]

CONDITIONS = [
    program(f"condition: {text}{shown(values)}", SOMETHING, asks(text, **values))
    for text, values in texts(
        ("attribute_exists(word)", {}),
        ("attribute_exists(tree.deep.er)", {}),
        ("attribute_not_exists(nowhere.at.all)", {}),
        ("attribute_type(tags, :t)", {"t": "SS"}),
        ("attribute_type(tags, :t)", {"t": "XX"}),
        ("begins_with(word, :p)", {"p": "hel"}),
        ("begins_with(amount, :p)", {"p": "7"}),
        ("contains(tags, :t)", {"t": "a"}),
        ("contains(numbers, :t)", {"t": 2}),
        ("contains(row, :t)", {"t": "q"}),
        ("contains(word, :t)", {"t": "ell"}),
        ("size(word) = :n", {"n": 5}),
        ("size(tags) = :n", {"n": 2}),
        ("size(amount) = :n", {"n": 1}),
        ("size(nowhere) = :n", {"n": 0}),
        ("amount = :n", {"n": 7.0}),
        ("amount <> :n", {"n": 7}),
        ("nowhere <> :n", {"n": 7}),
        ("nowhere = :n", {"n": 7}),
        ("NOT nowhere = :n", {"n": 7}),
        ("nowhere < :n", {"n": 7}),
        ("amount < :n", {"n": "8"}),
        ("word > :w", {"w": "Hello"}),
        ("flag < :f", {"f": True}),
        ("flag = :f", {"f": True}),
        ("tags = :t", {"t": {"b", "a"}}),
        ("tree = :m", {"m": {"deep": {"er": "y"}, "leaf": 1}}),
        ("row[1] = :r", {"r": "q"}),
        ("amount BETWEEN :a AND :b", {"a": 1, "b": 7}),
        ("amount BETWEEN :a AND :b", {"a": 1, "b": "7"}),
        ("amount IN (:a, :b)", {"a": "7", "b": 7}),
        ("amount = amount", {}),
        ("flag = :f OR amount = :n AND word = :w", {"f": True, "n": 0, "w": ""}),
        ("(flag = :f OR amount = :n) AND word = :w", {"f": True, "n": 0, "w": ""}),
        ("NOT (flag = :f OR amount = :n)", {"f": True, "n": 8}),
        ("((amount = :n) AND flag = :f)", {"n": 7, "f": True}),
        ("amount = :n and flag = :f", {"n": 7, "f": True}),
        ("count = :n", {"n": 7}),
        ("", {}),
        ("amount = :missing", {}),
        ("amount = :n", {"n": 7, "unused": 8}),
        ("#x = :n", {"n": 7}),
    )
]

UPDATES = [
    *(
        program(f"update: {text}{shown(values)}", SOMETHING, tries(text, **values), FOUND)
        for text, values in texts(
            ("SET amount = amount + :n", {"n": 3}),
            ("SET amount = amount - :n", {"n": 10}),
            ("SET amount = amount + :n", {"n": "3"}),
            ("SET fresh = nowhere", {}),
            ("SET fresh = nowhere + :n", {"n": 3}),
            ("SET fresh = word", {}),
            ("SET fresh = if_not_exists(fresh, :n)", {"n": 3}),
            ("SET fresh = if_not_exists(fresh, :zero) + :n", {"zero": 0, "n": 3}),
            ("SET fresh = word, word = :n", {"n": "new"}),
            ("SET amount = :n, fresh = amount", {"n": 1}),
            ("SET row = list_append(row, :more)", {"more": ["s"]}),
            ("SET word = list_append(word, :more)", {"more": ["s"]}),
            ("SET row = list_append(row, :more)", {"more": "s"}),
            ("SET row[0] = :x", {"x": "new"}),
            ("SET tree.leaf = :x", {"x": "new"}),
            ("SET tree.fresh = :x", {"x": "new"}),
            ("SET nowhere.fresh = :x", {"x": "new"}),
            ("SET word.fresh = :x", {"x": "new"}),
            ("SET tree[0] = :x", {"x": "new"}),
            ("REMOVE word, amount", {}),
            ("REMOVE nowhere", {}),
            ("REMOVE tree.leaf", {}),
            ("REMOVE nowhere.leaf", {}),
            ("REMOVE row[0]", {}),
            ("ADD amount :n", {"n": -9}),
            ("ADD fresh :n", {"n": 2}),
            ("ADD word :n", {"n": 2}),
            ("ADD tags :t", {"t": {"b", "c"}}),
            ("ADD tags :t", {"t": {1}}),
            ("ADD fresh :t", {"t": {"c"}}),
            ("ADD nowhere.fresh :n", {"n": 2}),
            ("DELETE numbers :t", {"t": {2}}),
            ("DELETE numbers :t", {"t": {1, 2, 3}}),
            ("DELETE numbers :t", {"t": {9}}),
            ("DELETE word :t", {"t": {"9"}}),
            (
                "DELETE numbers :t ADD amount :n SET word = :w REMOVE row[0]",
                {"t": {1}, "n": 1, "w": "w"},
            ),
            ("SET amount = :n ADD amount :n", {"n": 1}),
            ("SET tree.leaf = :n REMOVE tree", {"n": 1}),
            ("SET amount = :n SET word = :n", {"n": 1}),
            ("SET user_id = :n", {"n": "bob"}),
            ("SET count = :n", {"n": 1}),
            ("", {}),
            ("set amount = :n remove word", {"n": 1}),
            ("SET amount = :n", {"n": Raw({"SS": []})}),
            ("SET amount = amount + :n", {"n": Raw({"N": "1e126"})}),
        )
    ),
    *(
        program(f"update without an item: {text}", tries(text, **values), FOUND)
        for text, values in texts(
            ("SET word = :w", {"w": "w"}),
            ("ADD amount :n", {"n": 2}),
            ("REMOVE word", {}),
            ("DELETE tags :t", {"t": {"a"}}),
            ("SET amount = amount + :n", {"n": 2}),
            ("SET tree.leaf = :n", {"n": 2}),
        )
    ),
    program("an update of nothing makes the item", update("Readers", ANA, None), FOUND),
    *(
        program(
            f"an update answers {returns}",
            update(
                "Readers",
                ANA,
                "SET word = :w, tree = :t",
                values={":w": "w", ":t": {"a": 1, "b": 2}},
                returns=returns,
            ),
            update(
                "Readers",
                ANA,
                "SET word = :w, tree.a = :n REMOVE tree.b",
                values={":w": "x", ":n": 9},
                returns=returns,
            ),
            *[update("Readers", ANA, "REMOVE word", returns=returns)] * 2,
        )
        for returns in ("NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW")
    ),
    program(
        "an update on condition can answer what stood against it",
        SOMETHING,
        *(
            update(
                "Readers",
                {"user_id": user},
                "SET amount = :n",
                condition="amount < :n",
                values={":n": n},
                old=True,
            )
            for user, n in (("ana", 5), ("ana", 9), ("bob", 9))
        ),
    ),
]

QUERIES = [
    program(
        "a range is read in order, both ways, in pages",
        batch_put("Timelines", *HALF),
        of_ana(),
        of_ana(forward=False, limit=3),
        of_ana(forward=False, limit=3, start={**ANA, "sort_key": "07"}),
        of_ana(limit=3, start={**ANA, "sort_key": "07"}),
        of_ana(limit=10),
        of_ana(limit=11),
        query("Timelines", "user_id = :user", values={":user": "bob"}, limit=1),
    ),
    *(
        program(
            f"key condition: {text}{shown(values)}",
            batch_put("Timelines", *HALF),
            query(
                "Timelines",
                f"user_id = :user AND {text}",
                values={**ALL_OF_ANA, **values},
                project="sort_key",
            ),
        )
        for text, values in texts(
            ("sort_key = :a", {":a": "03"}),
            ("sort_key > :a", {":a": "07"}),
            ("sort_key >= :a", {":a": "07"}),
            ("sort_key < :a", {":a": "03"}),
            ("sort_key <= :a", {":a": "03"}),
            (":a > sort_key", {":a": "03"}),
            ("sort_key BETWEEN :a AND :b", {":a": "03", ":b": "05"}),
            ("sort_key BETWEEN :a AND :b", {":a": "05", ":b": "03"}),
            ("begins_with(sort_key, :a)", {":a": "0"}),
            ("begins_with(sort_key, :a)", {":a": ""}),
            ("sort_key <> :a", {":a": "03"}),
            ("sort_key = :a OR sort_key = :b", {":a": "03", ":b": "04"}),
            ("sort_key > :a AND sort_key < :b", {":a": "03", ":b": "05"}),
            ("publisher_id = :a", {":a": "pub"}),
            ("sort_key > :a", {":a": 3}),
            ("contains(sort_key, :a)", {":a": "3"}),
        )
    ),
    program(
        "a range of edges goes on beyond a key that need not be there",
        batch_put("Followers", *({"shard_id": "p", "edge": f"{n}#u"} for n in range(1, 8))),
        *(
            edges(
                project="edge",
                consistent=True,
                limit=2,
                **({"start": {"shard_id": "p", "edge": after}} if after else {}),
            )
            for after in ("", "3#u", "4", "5#u", "6", "2")
        ),
        *(
            edges(forward=forward, start={"shard_id": "p", "edge": after})
            for after in ("1#u", "7#u")
            for forward in (True, False)
        ),
    ),
    program(
        "a start key must have the form and the partition of the query",
        batch_put("Timelines", *HALF),
        *(
            of_ana(start=start)
            for start in (
                {"user_id": "ana"},
                {"user_id": "bob", "sort_key": "03"},
                {"user_id": "ana", "sort_key": 3},
                {"user_id": "ana", "sort_key": "03", "publisher_id": "pub"},
                {"user_id": "ana", "sort_key": ""},
            )
        ),
    ),
    program(
        "a query needs its partition key, and one only",
        *(
            query("Timelines", text, values=values)
            for text, values in texts(
                ("sort_key = :a", {":a": "1"}),
                ("user_id > :a", {":a": "1"}),
                ("user_id = :a AND user_id = :b", {":a": "1", ":b": "2"}),
                ("user_id = :a", {":a": 1}),
                ("user_id = :a", {":a": ""}),
                ("user_id = :a", {":a": "1", ":b": "2"}),
                ("user_id = sort_key", {}),
            )
        ),
    ),
    program(
        "a filter leaves out after the limit",
        batch_put("Timelines", *(entry("ana", f"{n}", n=n) for n in range(6))),
        of_ana(values={":n": 3}, only="n > :n", limit=5),
        of_ana(values={":n": 3}, only="n > :n", limit=3),
        of_ana(values={":n": "3"}, only="sort_key > :n"),
        of_ana(select="COUNT"),
        of_ana(select="COUNT", project="n"),
    ),
    program(
        "text is in the order of its UTF-8 bytes",
        batch_put(
            "Timelines",
            *(entry("ana", key) for key in ("a", "B", "é", "z", "\U0001f600", "\uffee", "10", "9")),
        ),
        of_ana(project="sort_key"),
    ),
    program(
        "a page ends with the item that makes it 1 MB",
        *(put("Timelines", entry("ana", f"{n}", x="y" * 350_000)) for n in range(4)),
        of_ana(project="sort_key"),
        of_ana(project="sort_key", start={**ANA, "sort_key": "2"}),
    ),
]

INDEXES = [
    program(
        "a sparse index holds who has its key, and forgets who loses it",
        put("Fanouts", {**PLAN, "open_fanout": "post-1", "state": "queued"}),
        put("Fanouts", {"fanout_id": "post-2", "state": "complete"}),
        scan("Fanouts", index="open"),
        update("Fanouts", PLAN, "REMOVE open_fanout"),
        scan("Fanouts", index="open"),
        scan("Fanouts"),
    ),
    program(
        "the outbox answers keys alone, newest first",
        *(
            put(
                "Posts",
                {"ref_id": f"p{n}", "publisher_id": "pub", "sort_key": f"{n}#p{n}", "body": "x"},
            )
            for n in range(4)
        ),
        outbox(forward=False, limit=2),
        outbox(forward=False, start={"ref_id": "p2", "publisher_id": "pub", "sort_key": "2#p2"}),
        outbox(consistent=True),
        outbox(project="body"),
        outbox(select="ALL_ATTRIBUTES"),
        query("Posts", "publisher_id = :p", values={":p": "pub"}, index="nowhere"),
        outbox("ref_id = :p"),
        delete("Posts", {"ref_id": "p3"}),
        outbox(forward=False),
    ),
    program(
        "an index key must have its type and may not be empty",
        put("Posts", {"ref_id": "p", "publisher_id": "pub", "sort_key": 7}),
        put("Posts", {"ref_id": "p", "publisher_id": "", "sort_key": "7"}),
        put("Posts", {"ref_id": "p", "publisher_id": "pub", "sort_key": "7"}),
        update("Posts", {"ref_id": "p"}, "SET sort_key = :n", values={":n": 7}),
        update("Posts", {"ref_id": "p"}, "SET sort_key = :n", values={":n": ""}),
        get("Posts", {"ref_id": "p"}),
    ),
    program(
        "a scan reads all, in pages and segments",
        batch_put("Readers", *({"user_id": f"u{n}", "n": n} for n in range(8))),
        scan("Readers"),
        scan("Readers", only="n > :n", values={":n": 5}),
        scan("Readers", select="COUNT"),
        scan("Readers", Segment=2, TotalSegments=2),
        scan("Readers", Segment=0),
    ),
]

BATCHES = [
    program(
        "a batch puts and deletes, also over tables",
        batch_put("Timelines", *HALF),
        batch(batch_delete("Timelines", {**ANA, "sort_key": "03"}), batch_put("Readers", ANA)),
        of_ana(project="sort_key"),
        FOUND,
    ),
    program(
        "a batch with a key twice is refused as a whole",
        batch_put("Timelines", HALF[0], HALF[1], entry("ana", "00", x=1)),
        scan("Timelines"),
    ),
    program(
        "a batch takes 25",
        batch_put("Timelines", *(entry("ana", f"{n}") for n in range(25))),
        batch_put("Timelines", *(entry("ana", f"{n}") for n in range(26))),
    ),
    program(
        "an empty batch is refused",
        ("batch_write_item", {"RequestItems": {}}),
        ("batch_get_item", {"RequestItems": {}}),
    ),
    program(
        "one wrong item spoils the batch",
        batch_put("Timelines", HALF[0], entry("ana", "")),
        batch_put("Timelines", HALF[0], ANA),
        scan("Timelines"),
    ),
    program("a batch deletes what is not there", batch_delete("Readers", ANA, {"user_id": "bob"})),
    program(
        "a batch for a table that is not there",
        batch_put("Nowhere", ANA),
        batch_get("Nowhere", ANA),
    ),
    program(
        "a batch gets what is there",
        batch_put("Readers", *({"user_id": f"u{n}", "n": n, "m": n} for n in range(3))),
        batch_get(
            "Readers", {"user_id": "u0"}, {"user_id": "nobody"}, {"user_id": "u2"}, consistent=True
        ),
        batch_get("Readers", {"user_id": "u0"}, project="n, #m", names={"#m": "m"}),
        batch_get("Readers", {"user_id": "u0"}, {"user_id": "u0"}),
        batch_get("Readers", *({"user_id": f"u{n}"} for n in range(100))),
        batch_get("Readers", *({"user_id": f"u{n}"} for n in range(101))),
    ),
]

TRANSACTIONS = [
    program(
        "a transaction is all or none, and says which condition failed",
        transact(follows("p"), counts_follow()),
        FOUND,
        transact(follows("q"), counts_follow(old=True)),
        transact(follows("p", old=True), tries("ADD follows :more", more=1)),
        get("Following", {**ANA, "publisher_id": "q"}),
        FOUND,
    ),
    program(
        "a transaction puts, deletes and checks",
        put("Readers", {**ANA, "n": 1}),
        transact(
            put("Readers", {"user_id": "bob"}, condition="attribute_not_exists(user_id)"),
            delete("Readers", {"user_id": "nobody"}),
            check("Readers", ANA, "n = :n", values={":n": 1}),
        ),
        transact(
            delete("Readers", {"user_id": "bob"}),
            check("Readers", ANA, "n = :n", values={":n": 2}, old=True),
        ),
        scan("Readers"),
    ),
    program(
        "one item twice in a transaction is refused",
        transact(put("Readers", ANA), delete("Readers", ANA)),
        transact(put("Readers", ANA), check("Readers", ANA, "attribute_exists(user_id)")),
        scan("Readers"),
    ),
    program(
        "an update that does not fit its item cancels the transaction",
        SOMETHING,
        transact(
            update("Readers", ANA, "ADD word :n", values={":n": 1}),
            put("Readers", {"user_id": "bob"}),
        ),
        transact(
            update("Readers", ANA, "SET nowhere.x = :n", values={":n": 1}),
            put("Readers", {"user_id": "bob"}),
        ),
        scan("Readers", project="user_id"),
    ),
    program(
        "a transaction that cannot be read is refused",
        transact(put("Readers", {"x": 1})),
        transact(update("Readers", ANA, "SET word", values={})),
        ("transact_write_items", {"TransactItems": [{}]}),
    ),
    program(
        "a transaction takes 100",
        transact(*(put("Readers", {"user_id": f"u{n}"}) for n in range(100))),
        transact(*(put("Readers", {"user_id": f"u{n}"}) for n in range(101))),
        scan("Readers", select="COUNT"),
    ),
]

PROGRAMS: list[Program] = [
    *(*PUTS, *GETS, *DELETES, *CONDITIONS, *UPDATES),
    *(*QUERIES, *INDEXES, *BATCHES, *TRANSACTIONS),
]

"""What may come through the doors: mostly nearly right, since anything else is refused at once."""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from hypothesis import strategies as st

from fanfold import contract, cursor, names
from fanfold.contract import Route
from fanfold.cursor import HASH_BYTES, MAX_SEEN, Cursor
from fanfold.ids import ref_id_for
from proof.model.sqs import messages
from tests.doors.service import Json

# Users and posts that there are (`seeded` in conftest.py), so that some of it is about something.
USERS = ("ada", "bob", "eve", "new")
POSTS = ("post-1", "post-2", "gone-1", "free-1")
OWN = (ref_id_for("ada", "key-1"), ref_id_for("ada", "key-2"))  # and these were published over HTTP

# One of so many parts of a request is odd: with more, hardly a request would be sound.
ODD = 12

# Half a surrogate pair is what JSON may hold and UTF-8 may not.
texts = st.text(st.characters(exclude_categories=()), max_size=40)
# What a URL, a header or a file can hold.
plain = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
# What SQS takes: no surrogates, and of the control characters three.
_taken = st.characters(
    exclude_categories=["Cs"],
    exclude_characters=[
        *(chr(each) for each in range(32) if chr(each) not in "\t\n\r"),
        "\ufffe",
        "\uffff",
    ],
)
ids = st.one_of(
    st.sampled_from(USERS + POSTS),
    st.from_regex(contract.ID_PATTERN, fullmatch=True),
    plain,
    st.sampled_from(
        ["", "a#b", "#sweep", "ada#muted", "x" * 129, "..", "%23", "ada%00", "%", "%ff"]
    ),
)
times = st.one_of(
    st.sampled_from(
        [
            *("2026-11-20T17:59:59.123Z", "2026-11-20T19:00:00+02:00", "2099-01-01T00:00:00Z"),
            *("2001-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:60-23:59"),
            *("2026-06-30T23:59:60Z", "2026-11-20", "2026-02-30T00:00:00Z", "2026-11-20T18:00:00"),
        ]
    ),
    st.datetimes().map(lambda at: at.isoformat() + "Z"),
    plain,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.integers(min_value=10**30),
    texts,
    ids,
    times,
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
bodies = st.one_of(
    st.dictionaries(texts, values, max_size=4),
    st.just({}),
    st.just({"title": "x" * 4_200}),
    st.integers(1, 200).map(lambda depth: json.loads('{"a":' * depth + "1" + "}" * depth)),
    values,
)

booleans = st.sampled_from([True, False, None, 1, "true"])

# By a field's name, whatever message or request it is in.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "version": st.sampled_from([1, 1, 1, 1, 2, 0, True, "1", 1.0, None]),
    "type": st.sampled_from([*contract.EVENTS, *contract.COMMANDS, "post.exploded", None, 1]),
    "publisher_id": ids,
    "user_id": ids,
    "ref_id": ids,
    "fanout_id": ids,
    "published_at": times,
    "body": bodies,
    "segment": st.integers(-1, 5) | st.integers(),
    "segments": st.sampled_from([1, 2, 4, 4096, 0, 10**30]),
    "position": st.one_of(st.just(""), st.just("8" * 16), plain),
    "approved": booleans,
    "private": booleans,
    "after": st.one_of(st.just(""), plain, st.just("2026-11-20T18:00:00.123Z#bob")),
    "hops": st.integers(0, 40) | st.integers(),
}
# Of each message, the fields that it must have, and those that it may.
MESSAGES = {
    contract.POST_PUBLISHED: (("publisher_id", "ref_id"), ("published_at", "body")),
    contract.POST_UPDATED: (("publisher_id", "ref_id", "body"), ()),
    contract.POST_DELETED: (("publisher_id", "ref_id"), ()),
    contract.FOLLOW_ADDED: (("user_id", "publisher_id"), ("approved",)),
    contract.FOLLOW_REMOVED: (("user_id", "publisher_id"), ()),
    contract.FOLLOWER_APPROVED: (("user_id", "publisher_id"), ()),
    contract.FOLLOWER_REMOVED: (("user_id", "publisher_id"), ()),
    contract.USER_BLOCKED: (("user_id", "publisher_id"), ()),
    contract.USER_UNBLOCKED: (("user_id", "publisher_id"), ()),
    contract.FANOUT_PLAN: (("fanout_id",), ()),
    contract.SEGMENT_DELIVER: (("fanout_id", "segment", "segments", "position", "hops"), ()),
    contract.RELATION_BACKFILL: (("user_id", "publisher_id"), ()),
    contract.RELATION_SETTLE: (("user_id", "publisher_id"), ()),
    contract.RELATION_OPEN: (("publisher_id", "after"), ()),
}
REQUESTS = {
    contract.PUBLISH_POST: ((), ("published_at", "body")),
    contract.EDIT_POST: (("body",), ()),
    contract.MOVE_MARKER: (("published_at", "ref_id"), ()),
    contract.CHOOSE_PRIVACY: (("private",), ()),
}


def _filled(must: tuple[str, ...], may: tuple[str, ...]) -> st.SearchStrategy[Json]:
    """Objects with these fields, each of them likely and sometimes sound."""
    return st.fixed_dictionaries(
        {name: FIELDS[name] for name in must}, optional={name: FIELDS[name] for name in may}
    )


def _spoilt(sound: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    """One in a few objects lacks a field, has another one, or a value of any kind."""

    def spoil(content: Json, name: str, value: Any) -> Json:
        return {**content, name: value}

    odd = st.sampled_from([*FIELDS, "surprise", "user", ""]) | texts
    without = sound.flatmap(
        lambda content: st.sampled_from([*content, ""]).map(
            lambda gone: {name: each for name, each in content.items() if name != gone}
        )
    )
    return sound | sound | sound | without | st.builds(spoil, sound, odd, values)


def _written(contents: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    """JSON text, perhaps with what JSON does not know, twice the same member, or cut short."""
    whole = contents.map(lambda content: json.dumps(content))
    wide = contents.map(lambda content: json.dumps(content, ensure_ascii=False, indent=1))
    cut = st.builds(lambda text, at: text[:at], whole, st.integers(0, 80))
    twice = whole.map(lambda text: text.replace("{", '{"a":1,"a":2,', 1))
    other = st.sampled_from(
        ["", "null", "[]", '{"body":' * 3_000, "[" * 5_000, '{"body":{"a":1e99999}}', "\ufeff{}"]
    )
    number = st.sampled_from(["1.10", "-0", "1E5", "9" * 5_000, "1e-400", "NaN", "-Infinity"])
    odd = number.map(lambda text: f'{{"body":{{"price":{text}}}}}')
    return st.one_of(whole, whole, whole, wide, cut, twice, other, odd, texts)


@cache
def request_bodies(route: Route) -> st.SearchStrategy[tuple[str | None, bool]]:
    """Bodies of a route's requests, and whether they are in base64."""
    content = _spoilt(_filled(*REQUESTS[route])) if route in REQUESTS else values
    written = _written(content)
    packed = written.map(
        lambda text: base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
    )
    binary = st.binary(max_size=60).map(lambda raw: base64.b64encode(raw).decode())
    return st.one_of(st.tuples(written, st.just(False)), st.tuples(packed | binary, st.just(True)))


_positions = st.one_of(
    st.sampled_from([*USERS, *(f"2026-11-20T18:00:0{each}.000Z#{OWN[0]}" for each in range(4))]),
    ids,
    st.builds(lambda at, ref: f"{at}#{ref}", times, ids),
    st.builds(lambda at, user: f"{at}#{user}", st.from_regex(r"[0-9a-f]{16}", fullmatch=True), ids),
    times,
)


@st.composite
def _sound_cursors(draw: st.DrawFn) -> str:
    low, position = sorted((draw(_positions), draw(_positions)))
    hashes = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)
    seen = tuple(draw(st.lists(hashes, max_size=MAX_SEEN)))
    return cursor.encode(Cursor(position, low, seen))


cursors = st.one_of(
    _sound_cursors(),
    _sound_cursors(),
    st.builds(lambda text, at: text[:at], _sound_cursors(), st.integers(0, 60)),
    st.builds(lambda a, b: a[: len(a) // 2] + b[len(b) // 2 :], _sound_cursors(), _sound_cursors()),
    st.binary(max_size=60).map(lambda raw: "3" + base64.urlsafe_b64encode(raw).decode()),
    plain,
)
_PARAMETERS: dict[str, st.SearchStrategy[str]] = {
    "limit": st.sampled_from(["1", "3", "100", "0", "101", "-1", "1e1", "\u0663", ""]) | plain,
    "hydrate": st.sampled_from(["true", "false", "True", ""]),
    "state": st.sampled_from(["followed", "requested", "unfollowed", ""]),
    "cursor": cursors,
    "before": cursors,
    "after": cursors,
    "from": times,
    "to": times,
}
_PLACES = [
    cursor.encode(Cursor.at(f"2026-11-20T18:00:0{second}.000Z#{OWN[0]}")) for second in range(5)
]
_SOUND: dict[str, st.SearchStrategy[str]] = {
    **_PARAMETERS,
    "limit": st.sampled_from(["1", "2", "100"]),
    "hydrate": st.sampled_from(["true", "false"]),
    "cursor": st.sampled_from([cursor.encode(Cursor.at(user)) for user in USERS]) | cursors,
    **dict.fromkeys(("before", "after"), st.sampled_from(_PLACES) | cursors),
    "from": st.sampled_from(["2001-01-01", "2026-11-20T17:59:59Z", "2026-11-20T18:00:01.001Z"]),
    "to": st.sampled_from(["2026-11-20T18:00:02Z", "2027-01-01", "9999-12-31"]),
}
_IN_PATHS = {"publisher_id": USERS, "user_id": USERS, "ref_id": (*POSTS, *OWN)}


@st.composite
def http_requests(draw: st.DrawFn, route: Route) -> Json:
    """The arguments of `Doors.http` for a request of a route."""

    def is_odd() -> bool:
        return draw(st.integers(1, ODD)) == ODD

    query = {
        name: draw(_PARAMETERS[name] if is_odd() else _SOUND[name])
        for name in route.query
        if draw(st.booleans())
    }
    if is_odd():
        query[draw(st.sampled_from(["user_id", "Limit", "", "before"]) | plain)] = draw(plain)
    path = {
        name: draw(ids if is_odd() else st.sampled_from(_IN_PATHS[name]))
        for name in _IN_PATHS
        if f"{{{name}}}" in route.path
    }
    headers = {}
    if route == contract.PUBLISH_POST:
        key = st.sampled_from(["key-1", "key-2", "key-3", "", "x" * 257, "\u00fc"])
        headers = draw(st.fixed_dictionaries({}, optional={"idempotency-key": key | plain}))
    body, is_base64 = None, False
    if route in REQUESTS or is_odd():
        body, is_base64 = draw(request_bodies(route))
    return {
        "user": draw(scalars if is_odd() else st.sampled_from(("ada", *USERS))),
        "path": path or None,
        "query": query,
        "headers": headers,
        "body": body,
        "is_base64": is_base64,
    }


def _events(kinds: tuple[str, ...]) -> st.SearchStrategy[Json]:
    def content(kind: str) -> st.SearchStrategy[Json]:
        head = {"version": 1, "type": kind}
        return _filled(*MESSAGES[kind]).map(lambda fields: {**head, **fields})

    return st.sampled_from(kinds).flatmap(content)


# The types of messages that each queue is for.
TYPES: dict[str, tuple[str, ...]] = {
    names.PUBLISH.name: (*contract.EVENTS, contract.FANOUT_PLAN),
    names.EXPRESS.name: (contract.SEGMENT_DELIVER,),
    names.BULK.name: (contract.SEGMENT_DELIVER,),
    names.RELATION.name: (
        *(contract.RELATION_BACKFILL, contract.RELATION_SETTLE),
        contract.RELATION_OPEN,
    ),
}


def _is_taken(text: str) -> bool:
    """Whether SQS takes it as the body of a message."""
    return bool(text) and messages.BODY.fullmatch(text) is not None


def queue_messages(queue: str) -> st.SearchStrategy[Json]:
    """Messages of a queue, as arguments of `Doors.send`."""
    contents = _spoilt(_events(TYPES[queue])) | _events((*contract.EVENTS, *contract.COMMANDS))
    carried = st.dictionaries(
        st.sampled_from(["first_sent_at", "first_message_id", "first_senders", "reason", "other"]),
        st.one_of(
            st.sampled_from(["1795197500000", "9" * 30, "-1", "AROAEXAMPLEID", "kind"]),
            st.text(_taken, min_size=1, max_size=30),
        ).map(lambda text: {"DataType": "String", "StringValue": text}),
        max_size=3,
    )
    return st.fixed_dictionaries(
        {
            "body": (_written(contents) | st.text(_taken, max_size=40)).filter(_is_taken),
            "attributes": st.just({}) | carried,
            "group": st.none() | st.sampled_from(USERS) | plain.filter(bool),
            "sender": st.sampled_from(["AROAEXAMPLEID:session", "000000000000"]) | plain,
        }
    )

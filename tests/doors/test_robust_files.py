"""Whatever stands in files and values that commands read: it is read, or there is a sentence."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import strategies as st

from fanfold import contract
from fanfold.ids import is_id
from fanfold_cli.dlq import dropping
from fanfold_cli.dlq.letters import QUEUES
from fanfold_cli.follows import graph
from fanfold_cli.local import context as local_context
from fanfold_cli.local.home import EngineState, Home
from fanfold_cli.terminal import ExpectedError, WrongValue
from infra.settings.checks import StageError
from infra.settings.context import choose
from infra.settings.stages import Stage
from tests.doors.cases import every, few_or_many
from tests.doors.service import Json
from tests.doors.strategies import ids, plain, scalars, texts, values

Read = TypeVar("Read")


def or_sentence(
    error: type[Exception], read: Callable[[], Read], *, begins: str = "", has: str = ""
) -> Read | None:
    """What is read; None if it is refused with a sentence, which begins so and has that in it."""
    try:
        return read()
    except error as refused:
        said = str(refused)
    assert said.startswith(begins)
    assert has in said
    assert said.endswith((".", "?")), said
    return None


# fanfold seed: a CSV of follows

cells = st.one_of(ids, ids, plain, st.sampled_from(['"', '""', "a,b", "\n", "x" * 200_000, "\0"]))
headers = st.sampled_from(
    [
        *("publisher,follower", "follower,publisher", "publisher,follower,since"),
        *("publisher;follower", "publisher, follower", "publisher,publisher,follower", "", "a"),
        *('"publisher","follower"', "\ufeffpublisher,follower", 'publisher,"follower'),
    ]
)
lines = st.lists(st.lists(cells, max_size=4).map(",".join), max_size=6)
sheets = st.builds(
    lambda header, rows, end: end.join([header, *rows]).encode("utf-8", "surrogatepass"),
    headers,
    lines,
    st.sampled_from(["\n", "\r\n", "\r", "\n\n"]),
)
compressed = st.one_of(
    sheets.map(gzip.compress),
    st.builds(lambda raw, at: gzip.compress(raw)[:at], sheets, st.integers(0, 60)),
    sheets.map(zlib.compress),
)
follow_files = st.tuples(
    st.sampled_from(["follows.csv", "follows.csv.gz", "follows"]),
    sheets | sheets | sheets | compressed | st.binary(max_size=80),
)


@few_or_many
def test_any_file_of_follows_is_a_graph_of_ids_or_a_sentence(tmp_path: Path, cases: int) -> None:
    def check(case: tuple[str, bytes]) -> None:
        name, content = case
        path = tmp_path / name
        path.write_bytes(content)
        read = or_sentence(ExpectedError, lambda: graph.read(path), begins=str(path))
        if read is None:
            return
        assert read.edges
        assert all(map(is_id, read.followers))
        assert all(is_id(user) for users in read.followers.values() for user in users)

    every(cases, follow_files, check)


# fanfold dlq restore: letters, one a line

PLACE = "Fanfold-prod (account 123456789012, eu-west-1)"

attributes = st.fixed_dictionaries(
    {
        contract.FIRST_SENT_AT: st.sampled_from(["1795197500000", "", "-1", "9" * 30, "\u0663"])
        | plain
    },
    optional={
        contract.FIRST_MESSAGE_ID: texts,
        contract.FIRST_SENDERS: texts,
        "kind": st.sampled_from(["contract", "gave_up", ""]) | texts,
        "reason": texts,
        "odd": scalars,
    },
)
letters = st.fixed_dictionaries(
    {
        "stack": st.just(PLACE) | st.just(PLACE) | scalars,
        "queue": st.sampled_from([*QUEUES, "nowhere"]) | scalars,
        "id": st.just("6f4e1d0e-0000-4000-8000-000000000000") | texts,
        "group": st.just("ada") | texts,
        "attributes": attributes | attributes | values,
        "body": st.just('{"version":1}') | texts | scalars,
    },
    optional={"surprise": scalars},
)


def as_lines(contents: list[Any]) -> bytes:
    return b"\n".join(json.dumps(each).encode() for each in contents)


letter_files = st.one_of(
    st.lists(letters, max_size=4).map(as_lines),
    st.lists(letters | values, max_size=4).map(as_lines),
    st.builds(
        lambda raw, at: raw[:at], st.lists(letters, min_size=1).map(as_lines), st.integers(0)
    ),
    st.sampled_from(
        [b"[" * 100_000, b'{"queue":' * 10_000, b"9" * 5_000, b"", b"\n\n\xff", b"null"]
    ),
    st.binary(max_size=60),
)


@few_or_many
def test_any_file_of_letters_is_read_whole_or_refused_with_its_line(
    tmp_path: Path, cases: int
) -> None:
    path, again = tmp_path / "letters.jsonl", tmp_path / "again.jsonl"

    def check(content: bytes) -> None:
        path.write_bytes(content)
        read = or_sentence(
            ExpectedError,
            lambda: dropping.read_file(path, place=PLACE),
            begins=f"{path}, line ",
            has="Nothing was sent",
        )
        if not read:
            return
        # Each can be written down again, as the same.
        again.unlink(missing_ok=True)
        dropping.write_file(again, read, place=PLACE)
        assert dropping.read_file(again, place=PLACE) == read

    every(cases, letter_files, check)


# The CDK's context: cdk.json, and -c

_FIELDS = sorted({*Stage.__dataclass_fields__, "stage", "like"})
context_values = st.one_of(
    st.sampled_from(
        [
            *("dev", "prod", "local", "verify-anna", "staging", "true", "false", "30", "-1", "0"),
            *("AROAEXAMPLEID=news-*", "https://id.example.com", "you@example.com", "libcurl", "*"),
            *("9" * 5_000, "publisher", "users", "a,b,,c", "\u0663", "a=b", " "),
        ]
    ),
    values,
    st.sampled_from([True, False, 30, 1.5, [], {}, None, ["a", 1, None], {"a": []}]),
)
contexts = st.dictionaries(
    st.sampled_from(_FIELDS) | st.sampled_from(["first-deploy", "retentionDays", "aws:cdk", ""]),
    context_values,
    max_size=4,
)


@few_or_many
def test_any_context_is_a_stage_that_can_be_deployed_or_a_sentence(cases: int) -> None:
    def check(context: Json) -> None:
        stage = or_sentence(StageError, lambda: choose(context))
        if stage is not None:
            stage.check()

    every(cases, contexts, check)


@few_or_many
def test_any_value_of_the_local_engine_is_read_or_a_sentence(cases: int) -> None:
    def check(given: list[str]) -> None:
        found = or_sentence(
            WrongValue,
            lambda: local_context.read(given, example="max_follows=5"),
            begins="-c must be NAME=VALUE, such as max_follows=5, not ",
        )
        if found is not None:
            assert local_context.merged({}, found).items() <= found.items()

    every(cases, st.lists(plain | st.builds("{}={}".format, plain, plain), max_size=4), check)


# The state of the local engine

states = st.fixed_dictionaries(
    {}, optional=dict.fromkeys([*EngineState.__dataclass_fields__, "home", "other"], context_values)
)
whole_states = st.fixed_dictionaries(
    {
        **dict.fromkeys(("pid", "supervisor_pid", "port"), st.integers(2**31, 2**40) | scalars),
        **dict.fromkeys(("pid_mark", "supervisor_mark", "endpoint"), texts | scalars),
        **dict.fromkeys(("started_at", "ends_at"), texts | scalars),
    },
    optional={
        "bootstrapped": scalars,
        "context": values,
        "outputs": st.dictionaries(texts, texts) | values,
        "home": values,
    },
)
state_files = st.one_of(
    (states | whole_states | values).map(lambda each: json.dumps(each).encode()),
    st.builds(lambda each, at: json.dumps(each).encode()[:at], whole_states, st.integers(0, 90)),
    st.sampled_from([b"[" * 100_000, b"9" * 5_000, b"", b"\xff\xfe", b"null", b"[]"]),
    st.binary(max_size=40),
)


@few_or_many
def test_any_state_of_the_engine_is_read_or_counts_as_none(tmp_path: Path, cases: int) -> None:
    home = Home(tmp_path)

    def check(content: bytes) -> None:
        home.state_file.write_bytes(content)
        state = home.read_state()
        assert home.running() is None
        if state is not None:
            home.write_state(state)
            assert home.read_state() == state

    every(cases, state_files, check)

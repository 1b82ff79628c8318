"""The model answers like the engines, call by call, except for the gaps that are listed."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import fanfold
from tests.compat import engines
from tests.compat.calls import CREATIONS, Call, Program
from tests.compat.gaps import GAPS
from tests.compat.programs import PROGRAMS
from tests.compat.recordings import recorded, shortened
from tests.compat.stores import SCRIPTS
from tests.compat.transcripts import Recorder

# A script calls the stores of the product; a program is a list of calls.
Script = Callable[[Any], None]


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[[Recorder], None]
    tables: tuple[str, ...]

    @staticmethod
    def of(what: Program | Script) -> Case:
        """A case that runs on any engine."""
        if isinstance(what, Program):
            text = repr(what.calls)
            tables = tuple(name for name in CREATIONS if repr(name) in text)
            return Case(what.name, lambda recorder: recorder.make(what.calls), tables)
        name = what.__name__.replace("_", " ")
        return Case(name, what, tuple(CREATIONS))


OF_STORES = [*map(Case.of, SCRIPTS)]
CASES = [*map(Case.of, PROGRAMS), *OF_STORES]


def record(case: Case, engine: AbstractContextManager[Any]) -> Recorder:
    """The calls of a case and the engine's answers. A gap may end a script early."""
    with engine as client:
        recorder = Recorder(client)
        try:
            case.run(recorder)
        except Exception as error:  # noqa: BLE001 - the transcript is shorter then
            recorder.answers.append({"ended": type(error).__name__})
        return recorder


def differences(calls: Sequence[Call], ours: list[Any], theirs: list[Any]) -> dict[int, str]:
    """The calls that were answered differently, by number, and how."""
    found = {}
    for number in range(max(len(ours), len(theirs))):
        one, other = ours[number : number + 1], theirs[number : number + 1]
        if one != other:
            call = calls[number] if number < len(calls) else "the end"
            found[number] = f"call {number}: {call}\n  model: {one}\n  other: {other}"
    return found


def unlisted(engine: str, case: Case, found: dict[int, str]) -> Iterator[str]:
    """Every difference that is no listed gap, and every listed gap that is no difference."""
    known = {number for gap in GAPS if gap.covers(engine, case.name) for number in gap.calls}
    for number, text in found.items():
        if number not in known:
            yield f"{case.name}, {text}"
    for number in known - found.keys():
        yield f"{case.name}, call {number}: no gap any more"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.parametrize("engine", [engines.MINISTACK, engines.DYNAMODB_LOCAL])
def test_the_model_answers_as_the_engine_does(engine: str, request: pytest.FixtureRequest) -> None:
    endpoint = request.getfixturevalue(engine.replace("-", "_"))
    wrong: list[str] = []
    for case in CASES:
        theirs = record(case, engines.on_endpoint(endpoint, case.tables)).answers
        if engine == engines.DYNAMODB_LOCAL and shortened(theirs) != recorded()[case.name]:
            wrong.append(f"{case.name}: its record is another")
        ours = record(case, engines.on_model())
        wrong += unlisted(engine, case, differences(ours.calls, ours.answers, theirs))
    assert not wrong, "\n".join(wrong)


def test_the_model_answers_as_dynamodb_local_did_and_ends_every_script() -> None:
    wrong: list[str] = []
    for case in CASES:
        ours = record(case, engines.on_model())
        assert "ended" not in ours.answers[-1], case.name
        found = differences(ours.calls, shortened(ours.answers), recorded()[case.name])
        wrong += unlisted(engines.DYNAMODB_LOCAL, case, found)
    assert not wrong, "\n".join(wrong)


def test_every_gap_is_about_a_program_that_exists() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
    assert {gap.program for gap in GAPS} <= set(names)


def test_every_method_of_a_store_is_in_a_script() -> None:
    callers = set()
    for case in OF_STORES:
        callers |= record(case, engines.on_model()).callers
    methods = store_methods()
    assert "fanfold.timeline.posts.Posts.add" in methods
    assert methods <= callers


def store_methods() -> set[str]:
    """The public methods that make calls, of every class of the product with a DynamoDB client."""
    found = set()
    root = Path(fanfold.__path__[0]).parent
    for path in root.glob("fanfold/**/*.py"):
        module = ".".join(path.relative_to(root).with_suffix("").parts)
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and "client: DynamoDBClient" in ast.unparse(node):
                found |= {
                    f"{module}.{node.name}.{each.name}"
                    for each in node.body
                    if isinstance(each, ast.FunctionDef)
                    and not each.name.startswith("_")
                    and "self.client." in ast.unparse(each)
                }
    return found

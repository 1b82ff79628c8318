"""The public documents: that they say what the code does, and all of it."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from openapi_spec_validator import OpenAPIV31SpecValidator

from fanfold import answers, contract
from fanfold.errors import FanfoldError
from fanfold.fanout import row
from fanfold.fanout.status import DeliveryStatus
from functions import _intake
from functions._intake import read_event
from infra.settings.context import FIXED
from infra.settings.stages import Stage
from tests import openapi as documented
from tests.examples import examples, requests
from tools.contract_docs import files, messages, openapi, settings
from tools.contract_docs.operations import OPERATIONS, PATH, QUERY
from tools.verify.results import RECORD

ROOT = Path(__file__).parents[3]


def test_a_committed_document_is_the_contract_of_today() -> None:
    for path, expected in files.all_texts().items():
        committed = path.read_text() if path.exists() else ""
        assert committed == expected, f"{path}: run `make documents`, and commit what it writes."
    found = {*files.TODAY.glob("*.json"), *(files.TODAY / files.SCHEMAS).iterdir()}
    found -= {ROOT / RECORD}  # written by `make verify`
    assert found == {path for path in files.all_texts() if path.suffix == ".json"}


def test_every_number_of_the_contract_has_its_limit() -> None:
    limits = {
        value
        for name, value in vars(contract).items()
        if name.startswith(("MAX_", "MIN_", "DEFAULT_"))
    }
    page = (files.TODAY / files.LIMITS).read_text()
    assert not {value for value in limits if not re.search(rf"\b{value:,}\b", page)}


def test_every_setting_of_a_stage_has_its_row() -> None:
    page = settings.page()
    chosen = {field.name for field in fields(Stage)} - {*FIXED}
    assert {name for name in chosen if f"`{name}`" not in page} == set()
    assert "| `retention_days` | `30` | 1 to 3650 | How long entries live; " in page


def test_every_route_and_parameter_is_described_and_nothing_else() -> None:
    assert not list(OpenAPIV31SpecValidator(openapi.document()).iter_errors())
    assert set(OPERATIONS) == set(contract.ROUTES)
    assert len({operation.id for operation in OPERATIONS.values()}) == len(OPERATIONS)
    assert set(QUERY) == {name for route in contract.ROUTES for name in route.query}
    assert set(PATH) == {
        name for route in contract.ROUTES for name in re.findall(r"{(\w+)}", route.path)
    }


@pytest.mark.parametrize("route", contract.ROUTES, ids=lambda route: route.key)
def test_an_example_of_an_answer_is_valid_and_shows_every_field_and_one_of_a_request_is_accepted(
    route: contract.Route,
) -> None:
    operation = OPERATIONS[route]
    if operation.answer is None:
        assert operation.example is None
    else:
        assert operation.example is not None
        documented.check(route.key, answered(operation.example, route.status))
        assert operation.example.keys() == operation.answer.__annotations__.keys()
    if operation.request:
        readers: Any = {
            _intake.PublishRequest: _intake.read_publish_request,
            _intake.EditRequest: _intake.read_edit_request,
            _intake.MarkerRequest: _intake.read_marker_request,
            _intake.PrivacyRequest: _intake.read_privacy_request,
        }
        read = readers[operation.request](json.dumps(operation.request_example))
        sent = {name: each for name, each in read._asdict().items() if each is not None}
        assert sent == operation.request_example


@pytest.mark.parametrize("kind", contract.EVENTS)
def test_an_example_of_a_message_is_accepted_and_valid(kind: str) -> None:
    example = messages.example(kind)
    assert read_event(example)._asdict() == example
    section = (ROOT / "docs/api.md").read_text().partition("\n## The publish queue\n")[2]
    lines = section.partition("```json\n")[2].partition("```")[0].splitlines()
    shown = {each["type"]: each for each in map(json.loads, lines)}
    assert list(shown) == list(contract.EVENTS)
    assert read_event(shown[kind]).type == kind
    for each in (example, shown[kind]):
        Draft202012Validator(messages.documents()[kind]).validate(each)


def answered(content: Any, status: int = 200, **headers: str) -> dict[str, Any]:
    sent = {"content-type": "application/json", "cache-control": contract.CACHE_CONTROL}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    return {"statusCode": status, "headers": sent, "body": json.dumps(content)}


def test_an_undocumented_status_field_or_type_is_noticed() -> None:
    good: Any = {"following": [], "count": 0, "next": None}
    follow = {"publisher_id": "a#b", "followed_at": "now"}
    route = contract.LIST_FOLLOWING.key
    documented.check(route, answered(good))
    for bad in (
        answered(good, 418),
        answered({**good, "more": True}),
        answered({"following": [], "next": None}),
        answered({**good, "next": 5}),
        answered({**good, "following": [follow]}),
        answered(good, content_type="text/html"),
        answered(good, cache_control="public"),
    ):
        with pytest.raises(Exception, match=r"."):
            documented.check(route, bad)


def kinds_of(base: type[FanfoldError]) -> list[type[FanfoldError]]:
    return [base, *(kind for each in base.__subclasses__() for kind in kinds_of(each))]


def test_the_states_and_the_fields_of_a_delivery_are_those_of_the_ledger() -> None:
    told = {row.QUEUED, row.DELIVERING, row.STALLED, *row.ENDED} - {row.VOID}  # which is 404
    assert told == set(contract.STATES)
    assert {field.name for field in fields(DeliveryStatus)} == set(get_type_hints(answers.Delivery))


def test_every_problem_has_its_section_with_status_and_title() -> None:
    parts = (ROOT / "docs/problems.md").read_text().split("\n## ")[1:]
    sections = {name: text for name, _, text in (part.partition("\n\n") for part in parts)}
    kinds = {kind.slug: kind for kind in kinds_of(FanfoldError)}
    assert set(sections) == set(kinds)
    for slug, text in sections.items():
        assert text.startswith(f"**{kinds[slug].status}** · {kinds[slug].title}"), slug


def test_every_error_that_a_route_may_answer_is_documented_with_its_status() -> None:
    for route in contract.ROUTES:
        operation = documented.document()["paths"][route.path][route.method.lower()]
        for error in (*contract.ANY_ROUTE, *route.refusals):
            answered = documented.resolve(operation["responses"][str(error.status)])
            assert f"`{error.slug}`" in answered["description"]


def test_every_route_has_an_example_in_the_docs() -> None:
    shown = {request for example in examples() for request in requests(example)}
    assert shown
    for route in contract.ROUTES:
        pattern = re.sub(r"{\w+}", "[^/]+", route.path)
        assert any(
            method == route.method and re.fullmatch(pattern, path) for method, path in shown
        ), f"docs/api.md has no example of {route.key}; add one, which a test will try."

"""Requests, answers and problem documents of the HTTP API."""

import base64
import json
from typing import Any

import pytest

from fanfold import contract, errors
from fanfold.contract import Route
from fanfold.errors import BadInput, FanfoldError, TooLarge
from functions._http import Action, Answer, Event, Request, answer, respond

CLAIMS = {"sub": "ada", "email": "ada@example.org", "email_verified": "true"}


def event(**changed: Any) -> dict[str, Any]:
    return {
        "routeKey": "GET /v1/timeline",
        "requestContext": {
            "authorizer": {"jwt": {"claims": CLAIMS}},
            "requestId": "JKJaXmPLvHcESHA=",
            "timeEpoch": 1_795_197_600_123,
        },
        **changed,
    }


def ask(
    action: Action,
    content: Event | None = None,
    claim: str = "sub",
    route: Route = contract.READ_TIMELINE,
) -> Answer:
    return respond(content or event(), {route: action}, user_claim=claim)


def request(**changed: Any) -> Request:
    return Request("ada", event(**changed))


def raising(error: Exception) -> Action:
    def action(_request: Request) -> Answer:
        raise error

    return action


def kinds_of(base: type[FanfoldError]) -> list[type[FanfoldError]]:
    return [base, *(kind for each in base.__subclasses__() for kind in kinds_of(each))]


@pytest.mark.parametrize("kind", kinds_of(FanfoldError))
def test_every_error_becomes_a_problem_document_with_its_sentence(kind: type[FanfoldError]) -> None:
    problem = ask(raising(kind("Do it like this.")))
    headers = {"content-type": "application/problem+json", "cache-control": "private, no-store"}
    assert problem["headers"].items() >= headers.items()
    assert problem["statusCode"] == kind.status
    assert json.loads(problem["body"]) == {
        "type": f"{contract.PROBLEMS_PAGE}#{kind.slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": "Do it like this.",
    }


def test_no_two_errors_share_a_slug() -> None:
    # A clearer name inside for what callers are told alike; messages alone meet the second one.
    alike = (errors.Contended, errors.TooOften, errors.NotYet)
    slugs = [kind.slug for kind in kinds_of(FanfoldError) if kind not in alike]
    assert len(slugs) == len(set(slugs))


def test_an_answer_is_compact_json_in_utf_8_or_has_no_body_and_is_kept_by_no_cache() -> None:
    assert answer(200, {"title": "Grüße"}) == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", "cache-control": "private, no-store"},
        "body": '{"title":"Grüße"}',
    }
    assert answer(204) == {"statusCode": 204, "headers": {"cache-control": "private, no-store"}}


# Users


def test_the_user_is_the_configured_claim_of_the_verified_token() -> None:
    seen: list[str] = []

    def action(request: Request) -> Answer:
        seen.append(request.user_id)
        return answer(204)

    ask(action)
    ask(action, claim="email")
    assert seen == ["ada", "ada@example.org"]


def with_claims(claim: str, **claims: Any) -> Answer:
    context = {"authorizer": {"jwt": {"claims": claims}}}
    return ask(lambda _request: answer(204), event(requestContext=context), claim)


@pytest.mark.parametrize(
    ("claim", "more"),
    [
        ("sub", {"token_use": "access"}),
        ("sub", {}),  # of an issuer that marks none
        ("email", {"email_verified": "true"}),  # API Gateway passes strings
        ("email", {"email_verified": True}),
        ("phone_number", {"phone_number_verified": "True"}),
    ],
)
def test_an_access_token_or_a_verified_address_names_the_user(
    claim: str, more: dict[str, Any]
) -> None:
    assert with_claims(claim, **{claim: "ada@example.org"}, **more)["statusCode"] == 204


@pytest.mark.parametrize(
    ("claim", "claims", "sentence"),
    [
        ("sub", {}, "'sub'"),
        ("sub", {"sub": "a#b"}, "'sub'"),
        ("sub", {"sub": "ada", "token_use": "id"}, "send the access token"),
        ("sub", {"sub": "ada", "token_use": None}, "send the access token"),
        ("email", {"email": "ada@example.org"}, "'email_verified'"),
        ("email", {"email": "ada@example.org", "email_verified": "false"}, "'email_verified'"),
        ("email", {"email": "ada@example.org", "email_verified": None}, "'email_verified'"),
        ("email", {"email": "ada@example.org", "email_verified": ["true"]}, "'email_verified'"),
        ("phone_number", {"phone_number": "1", "email_verified": True}, "'phone_number_verified'"),
    ],
)
def test_any_other_token_names_no_user(claim: str, claims: dict[str, Any], sentence: str) -> None:
    problem = with_claims(claim, **claims)
    assert problem["statusCode"] == 401
    assert sentence in problem["body"]


# The parts of a request


def test_a_body_is_plain_text_or_base64() -> None:
    text = '{"x":"Grüße"}'
    packed = base64.b64encode(text.encode()).decode()
    assert request(body=text, isBase64Encoded=False).body() == text
    assert request(body=text).body() == text
    assert request(body=packed, isBase64Encoded=True).body() == text
    assert request().body() == request(body=None).body() == ""


@pytest.mark.parametrize("packed", [base64.b64encode(b"\xc3").decode(), "eyJ4I"])
def test_a_body_that_is_not_utf_8_or_cut_short_is_refused(packed: str) -> None:
    with pytest.raises(BadInput, match="UTF-8"):
        request(body=packed, isBase64Encoded=True).body()


@pytest.mark.parametrize("encoded", [True, False])
def test_a_huge_body_is_refused_before_it_is_decoded(encoded: bool) -> None:
    with pytest.raises(TooLarge):
        request(body="!" * 6_000_000, isBase64Encoded=encoded).body()


@pytest.mark.parametrize(("text", "value"), [(None, 50), ("1", 1), ("100", 100), ("007", 7)])
def test_a_limit_within_its_bounds_is_accepted(text: str | None, value: int) -> None:
    given = None if text is None else {"limit": text}
    assert request(queryStringParameters=given).limit() == value


@pytest.mark.parametrize("text", ["", "0", "101", "-1", "1.0", " 1", "²", "٣", "9" * 5_000])
def test_any_other_limit_is_refused_with_the_bounds(text: str) -> None:
    with pytest.raises(BadInput, match="'limit' must be a whole number from 1 to 100"):
        request(queryStringParameters={"limit": text}).limit()


def with_query(**given: str) -> Answer:
    route = Route("GET", "/v1/timeline", "timeline", query=("limit", "before"))
    return ask(
        lambda each: answer(200, each.query), event(queryStringParameters=given), route=route
    )


def test_a_route_takes_the_parameters_of_the_contract_and_refuses_others() -> None:
    given = {"limit": "1", "before": "x"}
    assert json.loads(with_query(**given)["body"]) == given
    assert request().query == {}
    refused = with_query(limit="1", after="x")
    assert refused["statusCode"] == 400
    assert "'after'; this route takes limit, before." in refused["body"]
    none = Route("GET", "/v1/timeline", "timeline")
    refused = ask(raising(AssertionError()), event(queryStringParameters=given), route=none)
    assert "'limit'; this route takes none." in refused["body"]
    quoted = json.loads(with_query(**{"\n" * 500: "1"})["body"])["detail"]
    assert "\n" not in quoted
    assert len(quoted) < 200


@pytest.mark.parametrize("path", [None, {}, {"publisher_id": "a%23b"}, {"publisher_id": "%zz"}])
def test_an_invalid_id_in_the_path_is_refused(path: dict[str, str] | None) -> None:
    with pytest.raises(BadInput, match="'publisher_id' is not a valid id"):
        request(pathParameters=path).path_id("publisher_id")

"""Requests, answers and problem documents of the HTTP API."""

import base64
import json
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ReadTimeoutError

from fanfold import contract, errors
from fanfold.aws import boto  # noqa: F401  registers the errors of boto3
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
    assert problem["headers"]["content-type"] == "application/problem+json"
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


def client_error(code: str, status: int = 400) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": "secret-table is busy"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "PutItem")


@pytest.mark.parametrize(
    "error",
    [
        client_error("ThrottlingException"),
        client_error("ProvisionedThroughputExceededException"),
        client_error("RequestLimitExceeded"),
        client_error("Anything", 500),
        client_error("Anything", 503),
        EndpointConnectionError(endpoint_url="https://example.org"),
        ReadTimeoutError(endpoint_url="https://example.org"),
        errors.Unsent("refused"),
    ],
)
def test_a_transient_error_is_503_with_retry_after(error: Exception) -> None:
    problem = ask(raising(error))
    assert problem["statusCode"] == 503
    assert int(problem["headers"]["retry-after"]) >= 1
    assert "secret-table" not in problem["body"]


@pytest.mark.parametrize(("wait_ms", "seconds"), [(0, "1"), (1, "1"), (1_001, "2"), (86_400, "87")])
def test_who_is_too_fast_is_told_after_how_many_seconds_there_is_room(
    wait_ms: int, seconds: str
) -> None:
    problem = ask(raising(errors.TooOften("You are too fast.", wait_ms=wait_ms)))
    assert (problem["statusCode"], problem["headers"]["retry-after"]) == (429, seconds)


def test_requests_of_a_user_that_contend_are_429_with_retry_after() -> None:
    problem = ask(raising(errors.Contended("Your requests contend.")))
    assert problem["statusCode"] == 429
    assert int(problem["headers"]["retry-after"]) >= 1


@pytest.mark.parametrize(
    "error", [client_error("AccessDeniedException"), KeyError("secret-table"), ValueError()]
)
def test_an_unknown_error_is_500_with_the_request_id_and_no_detail(error: Exception) -> None:
    problem = ask(raising(error))
    assert problem["statusCode"] == 500
    assert "retry-after" not in problem["headers"]
    assert "JKJaXmPLvHcESHA=" in problem["body"]
    assert "secret-table" not in problem["body"]


def test_an_answer_without_content_has_no_body() -> None:
    assert "body" not in answer(204)


@pytest.mark.parametrize(
    "action",
    [
        lambda _: answer(200, {}),
        lambda _: answer(204),
        raising(BadInput("No.")),
        raising(KeyError()),
    ],
)
def test_no_cache_keeps_an_answer(action: Action) -> None:
    assert ask(action)["headers"]["cache-control"] == "private, no-store"


def test_an_answer_is_compact_json_in_utf_8() -> None:
    assert answer(200, {"title": "Grüße"}) == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", "cache-control": "private, no-store"},
        "body": '{"title":"Grüße"}',
    }


@pytest.mark.parametrize("route", ["$default", "POST /v1/timeline", "", "GET /v1/timeline/"])
def test_an_unknown_route_is_404_even_without_a_user(route: str) -> None:
    problem = ask(raising(AssertionError()), {"routeKey": route})
    assert problem["statusCode"] == 404
    assert "GET /v1/timeline" in problem["body"]


# Users


def test_the_user_is_the_configured_claim_of_the_verified_token() -> None:
    seen: list[str] = []

    def action(request: Request) -> Answer:
        seen.append(request.user_id)
        return answer(204)

    ask(action)
    ask(action, claim="email")
    assert seen == ["ada", "ada@example.org"]


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"authorizer": {}},
        {"authorizer": None},
        {"authorizer": "ada"},
        {"authorizer": {"jwt": {}}},
        {"authorizer": {"jwt": None}},
        {"authorizer": {"jwt": ["ada"]}},
        {"authorizer": {"jwt": {"claims": {}}}},
        {"authorizer": {"jwt": {"claims": None}}},
        {"authorizer": {"jwt": {"claims": "sub"}}},
        None,
        {"authorizer": {"jwt": {"claims": {"sub": None}}}},
        {"authorizer": {"jwt": {"claims": {"sub": ["ada"]}}}},
        {"authorizer": {"jwt": {"claims": {"sub": 5}}}},
        {"authorizer": {"jwt": {"claims": {"sub": ""}}}},
        {"authorizer": {"jwt": {"claims": {"sub": "a#b"}}}},
        {"authorizer": {"lambda": {"sub": "ada"}}},
        {"authorizer": {"iam": {"userId": "ada"}}},
    ],
)
def test_a_claim_that_is_not_an_id_is_refused(context: dict[str, Any] | None) -> None:
    problem = ask(raising(AssertionError()), event(requestContext=context))
    assert problem["statusCode"] == 401
    assert "'sub'" in problem["body"]


def with_claims(claim: str, **claims: Any) -> Answer:
    context = {"authorizer": {"jwt": {"claims": claims}}}
    return ask(lambda _request: answer(204), event(requestContext=context), claim)


@pytest.mark.parametrize("kind", ["id", "refresh", "", None])
def test_a_token_that_is_not_for_apis_is_refused(kind: str | None) -> None:
    problem = with_claims("sub", sub="ada", token_use=kind)
    assert problem["statusCode"] == 401
    assert "send the access token" in problem["body"]


@pytest.mark.parametrize("kind", [{"token_use": "access"}, {}])
def test_an_access_token_is_accepted_and_so_is_one_of_an_issuer_that_marks_none(
    kind: dict[str, str],
) -> None:
    assert with_claims("sub", sub="ada", **kind)["statusCode"] == 204


@pytest.mark.parametrize("claim", ["email", "phone_number"])
@pytest.mark.parametrize("verified", ["true", "True", True])  # API Gateway passes strings
def test_a_verified_address_may_name_the_user(claim: str, verified: Any) -> None:
    answered = with_claims(claim, **{claim: "ada@example.org", f"{claim}_verified": verified})
    assert answered["statusCode"] == 204


@pytest.mark.parametrize("claim", ["email", "phone_number"])
@pytest.mark.parametrize(
    "verified", [{}, {"": "false"}, {"": ""}, {"": False}, {"": None}, {"": ["true"]}]
)
def test_an_address_that_is_not_verified_names_nobody(claim: str, verified: dict[str, Any]) -> None:
    said = {f"{claim}_verified": each for each in verified.values()}
    problem = with_claims(claim, sub="ada", **{claim: "victim@example.org"}, **said)
    assert problem["statusCode"] == 401
    assert f"'{claim}_verified'" in problem["body"]


def test_only_the_token_names_the_user() -> None:
    content = event(
        requestContext={},
        headers={"sub": "ada", "x-user-id": "ada"},
        queryStringParameters={"sub": "ada", "user_id": "ada"},
    )
    assert ask(raising(AssertionError()), content)["statusCode"] == 401


# The parts of a request


def test_a_body_is_plain_text_or_base64() -> None:
    text = '{"x":"Grüße"}'
    packed = base64.b64encode(text.encode()).decode()
    assert request(body=text, isBase64Encoded=False).body() == text
    assert request(body=text).body() == text
    assert request(body=packed, isBase64Encoded=True).body() == text
    assert request().body() == request(body=None).body() == ""


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"\xc3"])
def test_a_body_that_is_not_utf_8_is_refused(raw: bytes) -> None:
    packed = base64.b64encode(raw).decode()
    with pytest.raises(BadInput, match="UTF-8"):
        request(body=packed, isBase64Encoded=True).body()


def test_truncated_base64_is_refused() -> None:
    with pytest.raises(BadInput, match="UTF-8"):
        request(body="eyJ4I", isBase64Encoded=True).body()


@pytest.mark.parametrize("encoded", [True, False])
def test_a_huge_body_is_refused_before_it_is_decoded(encoded: bool) -> None:
    with pytest.raises(TooLarge):
        request(body="!" * 6_000_000, isBase64Encoded=encoded).body()


@pytest.mark.parametrize(
    ("text", "value"), [(None, 50), ("1", 1), ("100", 100), ("42", 42), ("007", 7)]
)
def test_a_limit_within_its_bounds_is_accepted(text: str | None, value: int) -> None:
    given = None if text is None else {"limit": text}
    assert request(queryStringParameters=given).limit() == value


@pytest.mark.parametrize(
    "text", ["", "0", "101", "-1", "+1", "1.0", "1e1", " 1", "1,2", "²", "٣", "9" * 5_000, "x"]
)
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


def test_a_route_without_parameters_refuses_any() -> None:
    route = Route("GET", "/v1/timeline", "timeline")
    content = event(queryStringParameters={"limit": "1"})
    refused = ask(raising(AssertionError()), content, route=route)
    assert "'limit'; this route takes none." in refused["body"]


def test_an_unknown_parameters_name_is_quoted_short_and_as_ascii() -> None:
    refused = json.loads(with_query(**{"\n" * 500: "1"})["body"])["detail"]
    assert "\n" not in refused
    assert len(refused) < 200


@pytest.mark.parametrize("encoded", ["ada%40example.org", "ada@example.org"])
def test_an_id_in_the_path_is_decoded(encoded: str) -> None:
    path = {"publisher_id": encoded}
    assert request(pathParameters=path).path_id("publisher_id") == "ada@example.org"


@pytest.mark.parametrize("path", [None, {}, {"publisher_id": "a%23b"}, {"publisher_id": "%zz"}])
def test_an_invalid_id_in_the_path_is_refused(path: dict[str, str] | None) -> None:
    with pytest.raises(BadInput, match="'publisher_id' is not a valid id"):
        request(pathParameters=path).path_id("publisher_id")


def test_a_header_is_its_value_or_none() -> None:
    assert request(headers={"idempotency-key": "k"}).header("idempotency-key") == "k"
    assert request(headers={}).header("idempotency-key") is None
    assert request().header("idempotency-key") is None


def test_a_request_has_the_time_of_api_gateway() -> None:
    assert request().received_at == 1_795_197_600_123

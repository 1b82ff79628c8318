"""What a page of a development server gets from the local engine: its browser asks first."""

from collections.abc import Callable, Mapping

import urllib3

from fanfold import contract
from fanfold_cli.stack import Deployment
from tests.e2e.clients import REQUEST_SECONDS, User, http

# A page of a development server, and one that is a file.
ORIGINS = ("http://localhost:5173", "null")
ALLOWED, EXPOSED = "access-control-allow-origin", "access-control-expose-headers"


def call(
    stack: Deployment, method: str, path: str, headers: Mapping[str, str]
) -> urllib3.BaseHTTPResponse:
    url = f"{stack.api_url}{path}"
    return http.request(method, url, headers=headers, retries=False, timeout=REQUEST_SECONDS)


def test_any_page_may_send_every_method_with_a_token_and_no_cookies(stack: Deployment) -> None:
    wanted = "authorization,content-type,idempotency-key,request-age"
    for method in {route.method for route in contract.ROUTES}:
        for origin in ORIGINS:
            asked = {"method": method, "headers": wanted}
            headers = {f"access-control-request-{name}": each for name, each in asked.items()}
            answer = call(stack, "OPTIONS", "/v1/posts", {"origin": origin, **headers})
            assert answer.status == 204
            assert answer.headers[ALLOWED] in ("*", origin)
            assert method in answer.headers["access-control-allow-methods"].split(",")
            assert answer.headers["access-control-allow-headers"] == wanted
            assert "access-control-allow-credentials" not in answer.headers


def test_a_page_reads_answers_and_errors_and_when_to_try_again_but_no_refusal_of_its_token(
    stack: Deployment, make: Callable[[str], User]
) -> None:
    page = {"origin": ORIGINS[0]}
    signed_in = {**page, "authorization": f"Bearer {make('page').token}"}
    for path, status in (("/v1/timeline", 200), ("/v1/timeline?limit=0", 400)):
        answer = call(stack, "GET", path, signed_in)
        assert answer.status == status
        assert answer.headers[ALLOWED] in ("*", ORIGINS[0])
        assert answer.headers[EXPOSED].split(",") == ["retry-after", "apigw-requestid"]
    # A gap: what API Gateway does is not known to us. The page sees a request that failed.
    refused = call(stack, "GET", "/v1/timeline", page)
    assert (refused.status, ALLOWED in refused.headers) == (401, False)

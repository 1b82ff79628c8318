"""What a page of a development server gets from the local engine: its browser asks first."""

from collections.abc import Callable
from itertools import product

import urllib3

from fanfold import contract
from fanfold_cli.stack import Deployment
from tests.e2e.clients import REQUEST_SECONDS, User, http

# Ports that development servers take, both names of this machine, and a page that is a file.
ORIGINS = ("http://localhost:5173", "http://127.0.0.1:8080", "https://localhost", "null")
ALLOWED, EXPOSED = "access-control-allow-origin", "access-control-expose-headers"


def call(stack: Deployment, method: str, path: str, **headers: str) -> urllib3.BaseHTTPResponse:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    url = f"{stack.api_url}{path}"
    return http.request(method, url, headers=sent, retries=False, timeout=REQUEST_SECONDS)


def test_any_page_may_send_every_method_with_a_token_and_no_cookies(stack: Deployment) -> None:
    headers = "authorization,content-type,idempotency-key,request-age"
    for method, origin in product(sorted({route.method for route in contract.ROUTES}), ORIGINS):
        answer = call(
            stack,
            "OPTIONS",
            "/v1/posts",
            origin=origin,
            access_control_request_method=method,
            access_control_request_headers=headers,
        )
        assert answer.status == 204
        assert answer.headers[ALLOWED] in ("*", origin)
        assert method in answer.headers["access-control-allow-methods"].split(",")
        assert answer.headers["access-control-allow-headers"] == headers
        assert "access-control-allow-credentials" not in answer.headers


def test_a_page_reads_answers_and_errors_and_when_to_try_again(
    stack: Deployment, make: Callable[[str], User]
) -> None:
    token = f"Bearer {make('page').token}"
    for path, status in (("/v1/timeline", 200), ("/v1/timeline?limit=0", 400)):
        answer = call(stack, "GET", path, origin=ORIGINS[0], authorization=token)
        assert answer.status == status
        assert answer.headers[ALLOWED] in ("*", ORIGINS[0])
        assert answer.headers[EXPOSED].split(",") == ["retry-after", "apigw-requestid"]


def test_a_page_cannot_read_why_the_engine_refuses_its_token(stack: Deployment) -> None:
    # A gap: what API Gateway does is not known to us. The page sees a request that failed.
    answer = call(stack, "GET", "/v1/timeline", origin=ORIGINS[0])
    assert answer.status == 401
    assert ALLOWED not in answer.headers

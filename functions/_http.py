"""HTTP: decodes API Gateway's events, encodes answers, and turns errors into problem documents.

API Gateway has routed the request, so a function is a table of route keys and actions.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote

from fanfold import contract, json_text
from fanfold.aws.retries import is_transient
from fanfold.contract import Route
from fanfold.errors import BadInput, FanfoldError, NoRoute, TooLarge, TryLater
from fanfold.ids import check_id
from functions._logs import new_logger
from functions._users import user_of

Event = Mapping[str, Any]
Answer = dict[str, Any]

logger = new_logger()


class Request(NamedTuple):
    """A request of a user, whom only the token names."""

    user_id: str
    event: Event

    @property
    def received_at(self) -> int:
        """Epoch milliseconds at which API Gateway received the request."""
        return int(self.event["requestContext"]["timeEpoch"])

    @property
    def asked_at(self) -> int:
        """Epoch milliseconds at which the client first sent the request; raises `BadInput`."""
        text = self.header(contract.REQUEST_AGE)
        if text is None:
            return self.received_at
        most = contract.MAX_REQUEST_AGE_MS
        if not (text.isascii() and text.isdigit() and len(text) <= 7 and int(text) <= most):
            raise BadInput(
                f"The Request-Age header must be a whole number of milliseconds from 0 to {most}: "
                "how long ago the request was first sent. Without it, that is now."
            )
        return self.received_at - int(text)

    def path_id(self, name: str) -> str:
        """An id of the path; raises `BadInput`."""
        return check_id(unquote((self.event.get("pathParameters") or {}).get(name, "")), field=name)

    def header(self, name: str) -> str | None:
        """A header's value; `name` is in lower case."""
        value = (self.event.get("headers") or {}).get(name)
        return None if value is None else str(value)

    def body(self) -> str:
        """The body as text; raises `BadInput` if it is not UTF-8, and `TooLarge`."""
        raw = self.event.get("body") or ""
        if len(raw) > 2 * contract.MAX_REQUEST_BYTES:
            raise TooLarge(
                f"The request is larger than {contract.MAX_REQUEST_BYTES} bytes; shorten it."
            )
        if not self.event.get("isBase64Encoded"):
            return str(raw)
        try:
            return base64.b64decode(raw).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise BadInput("The request body is not text in UTF-8; send JSON.") from None

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; the route takes each of them."""
        given: dict[str, str] = self.event.get("queryStringParameters") or {}
        return given

    def limit(self) -> int:
        """The `limit` parameter; raises `BadInput` outside its bounds."""
        text = self.query.get("limit")
        if text is None:
            return contract.DEFAULT_LIMIT
        lo, hi = contract.MIN_LIMIT, contract.MAX_LIMIT
        if not (text.isascii() and text.isdigit() and len(text) <= 3 and lo <= int(text) <= hi):
            raise BadInput(f"'limit' must be a whole number from {lo} to {hi}.")
        return int(text)


Action = Callable[[Request], Answer]


def answer(status: int, content: Any = None) -> Answer:
    """An answer in JSON, or without a body if there is no content."""
    if content is None:
        return {"statusCode": status, "headers": {"cache-control": contract.CACHE_CONTROL}}
    return _json(status, content, "application/json")


def respond(event: Event, actions: Mapping[Route, Action], *, user_claim: str) -> Answer:
    """Run the action of the request's route; every error becomes a problem document (RFC 9457)."""
    try:
        key = event.get("routeKey")
        for route, action in actions.items():
            if route.key == key:
                claims = _object(event, "requestContext", "authorizer", "jwt", "claims")
                request = Request(user_of(claims, user_claim), event)
                _check_parameters(request, route)
                return action(request)
        known = "; ".join(route.key for route in contract.ROUTES)
        raise NoRoute(f"There is no such route; there are {known}.")
    except FanfoldError as error:
        logger.info("The request was refused.", slug=error.slug, status=error.status)
        return _problem(error)
    except Exception as error:
        if is_transient(error):
            logger.warning("A call that this request needs failed.", exc_info=True)
            return _problem(TryLater("A store is busy; send the same request again in a moment."))
        logger.exception("The request met a fault of ours.")
        request_id = _object(event, "requestContext").get("requestId", "")
        return _problem(
            FanfoldError(
                "This is a fault of the service; sending the same request again is safe. "
                f"If it stays, tell its operators the request id {request_id}."
            )
        )


def _object(event: Event, *path: str) -> Mapping[str, Any]:
    """The object at this path of the event; an empty one if a step is missing or no object."""
    found: Any = event
    for name in path:
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _check_parameters(request: Request, route: Route) -> None:
    """Refuse what the route does not take, so that a misspelt parameter is not silently ignored."""
    for name in request.query:
        if name not in route.query:
            known = ", ".join(route.query) or "none"
            raise BadInput(f"Unknown parameter {name[:40]!a}; this route takes {known}.")


def _problem(error: FanfoldError) -> Answer:
    content = {
        "type": f"{contract.PROBLEMS_PAGE}#{error.slug}",
        "title": error.title,
        "status": error.status,
        "detail": error.sentence,
    }
    problem = _json(error.status, content, "application/problem+json")
    if isinstance(error, TryLater):
        seconds = max(contract.RETRY_AFTER_SECONDS, -(-error.wait_ms // 1000))
        problem["headers"]["retry-after"] = str(seconds)
    return problem


def _json(status: int, content: Any, kind: str) -> Answer:
    return {
        "statusCode": status,
        "headers": {"content-type": kind, "cache-control": contract.CACHE_CONTROL},
        "body": json_text.write(content),
    }

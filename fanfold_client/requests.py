"""A request that is repeated, with pauses, until it is answered or its time is over."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from itertools import count
from typing import Any, NamedTuple

import urllib3

from fanfold import clock
from fanfold_client.errors import Failed, NoAnswer, Refused

CONNECT_SECONDS = 5.0
# Longer than API Gateway waits for a function.
ANSWER_SECONDS = 35.0
# The first pause; each is twice as long as the one before, but not after so many.
PAUSE_SECONDS, DOUBLINGS = 1.0, 4
# A wrong certificate or address stays wrong.
HOPELESS = (urllib3.exceptions.SSLError, urllib3.exceptions.LocationValueError)


class Request(NamedTuple):
    method: str
    url: str
    body: bytes | None
    headers: dict[str, str]


def answer(
    pool: urllib3.PoolManager,
    make: Callable[[], Request],
    loads: Callable[[str], Any],
    members: tuple[str, ...] | None,
    on_retry: Callable[[Failed], object],
    seconds: float,
) -> Any:
    """Return the JSON of the answer, None if it is empty; raises `Refused` or `NoAnswer`.

    It must be an object with these `members`; None takes any answer, also an empty one.
    No attempt begins after `seconds`. `make` makes the request of each anew: tokens end.
    """
    end = clock.monotonic() + seconds
    for attempt in count():
        try:
            return _once(pool, make(), loads, members, max(end - clock.monotonic(), 0.1))
        except Failed as failed:
            step = PAUSE_SECONDS * 2 ** min(attempt, DOUBLINGS)
            pause = (failed.retry_after or step / 2) + clock.chance() * step / 2
            if not failed.may_pass or clock.monotonic() + pause >= end:
                raise
            on_retry(failed)
        clock.sleep(pause)
    raise AssertionError("unreachable")


def _once(
    pool: urllib3.PoolManager,
    request: Request,
    loads: Callable[[str], Any],
    members: tuple[str, ...] | None,
    seconds: float,
) -> Any:
    try:
        answered = pool.request(
            request.method,
            request.url,
            body=request.body,
            headers={"user-agent": _user_agent(), **request.headers},
            timeout=urllib3.Timeout(min(CONNECT_SECONDS, seconds), min(ANSWER_SECONDS, seconds)),
            retries=False,
            redirect=False,
        )
    except urllib3.exceptions.HTTPError as error:
        failed = NoAnswer(f"{request.method} {request.url} got no answer: {error}")
        failed.may_pass = not isinstance(error, HOPELESS)
        raise failed from error
    if not 200 <= answered.status < 300:
        raise Refused(answered)
    said = f"{request.method} {request.url} was answered with {answered.status} and"
    by = f"so not by the API: {(answered.data or b'')[:200]!r}"
    try:
        content = loads(answered.data.decode()) if answered.status != 204 else None
    except ValueError as error:
        raise NoAnswer(f"{said} no JSON, {by}") from error
    if members is not None and not (isinstance(content, dict) and content.keys() >= {*members}):
        raise NoAnswer(f"{said} without what is due, {by}")
    return content


@cache
def _user_agent() -> str:
    return f"fanfold-python/{version('fanfold')}"

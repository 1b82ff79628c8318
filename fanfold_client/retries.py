"""A request that is repeated, with pauses, until it is answered or its time is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from http.client import HTTPException
from importlib.metadata import version
from itertools import count
from threading import Lock
from typing import Any, NamedTuple

import urllib3

from fanfold import clock, contract
from fanfold_client import checks
from fanfold_client.errors import Failed, NoAnswer, Refused

CONNECT_SECONDS = 5.0
# Longer than API Gateway waits for a function.
ANSWER_SECONDS = 35.0
# The first pause, and how often it doubles.
PAUSE_SECONDS, DOUBLINGS = 1.0, 4
# A wrong certificate or address stays wrong.
HOPELESS = (urllib3.exceptions.SSLError, urllib3.exceptions.LocationValueError)


class Request(NamedTuple):
    method: str
    url: str
    body: bytes | None
    headers: dict[str, str]


@dataclass
class Sender:
    """Sends the requests of one user; the fields are those of `Fanfold`."""

    pool: urllib3.PoolManager
    token: str | Callable[[str | None], str]
    loads: Callable[[str], Any]
    on_retry: Callable[[Failed], object]
    seconds: float
    _renewing: Lock = field(default_factory=Lock)
    # The token refused last, and its replacement.
    _refused: str | None = None
    _renewed: str = ""

    def __post_init__(self) -> None:
        checks.check_seconds(self.seconds)

    def answer(self, request: Request, members: tuple[str, ...] | None) -> Any:
        """Return the JSON of the answer, None if it is empty; raises `Refused` or `NoAnswer`.

        The answer must be an object with these `members`; None takes any answer, also an empty one.
        No attempt begins after `seconds`, and no answer is read for longer. A request with a
        `Request-Age` says how long ago its first attempt was.
        """
        now = clock.Lasting()
        began = now()
        refused: str | None = None
        may_be_done = False

        def left() -> float:
            return began + self.seconds - now()

        for attempt in count():
            try:
                token = self._token(refused)
                signed = {**request.headers, "authorization": f"Bearer {token}"}
                if contract.REQUEST_AGE in signed:
                    age = min(int(1000 * (now() - began)), contract.MAX_REQUEST_AGE_MS)
                    signed[contract.REQUEST_AGE] = str(age)
                return self._once(request._replace(headers=signed), members, left)
            except Failed as failed:
                may_be_done = failed.may_be_done = may_be_done or failed.may_be_done
                if isinstance(failed, Refused) and failed.status == 401:
                    if refused is None and callable(self.token):
                        refused = token
                        continue
                    self._forget(token)
                step = PAUSE_SECONDS * 2 ** min(attempt, DOUBLINGS)
                pause = (failed.retry_after or step / 2) + clock.chance() * step / 2
                if not failed.may_pass or pause >= left():
                    raise
                self.on_retry(failed)
            clock.sleep(pause)
        raise AssertionError("unreachable")

    def _token(self, refused: str | None) -> str:
        """The token, or the replacement of a refused one: threads wait for that, and share it."""
        if isinstance(self.token, str):
            return checks.checked_token(self.token)
        if refused is None:
            return _asked(self.token, None)
        with self._renewing:
            if self._refused != refused:
                self._renewed = _asked(self.token, refused)
                self._refused = refused
            return self._renewed

    def _forget(self, token: str) -> None:
        """Forget a renewed token that was refused too, so that the next refusal gets a new one."""
        with self._renewing:
            if token == self._renewed:
                self._refused = None

    def _once(
        self, request: Request, members: tuple[str, ...] | None, left: Callable[[], float]
    ) -> Any:
        what, lasts = f"{request.method} {request.url}", left()
        if lasts <= 0:
            late = NoAnswer(f"{what} was not sent: its time was over before there was a token.")
            late.may_be_done = False
            raise late
        timeout = urllib3.Timeout(
            connect=min(CONNECT_SECONDS, lasts), read=min(ANSWER_SECONDS, lasts)
        )
        try:
            answered = self.pool.request(
                request.method,
                request.url,
                body=request.body,
                headers={"user-agent": _user_agent(), **request.headers},
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
            )
            body = _read(answered, left)
        except (urllib3.exceptions.HTTPError, HTTPException, OSError) as error:
            failed = NoAnswer(f"{what} got no answer: {error}")
            failed.may_pass = failed.may_be_done = not isinstance(error, HOPELESS)
            raise failed from error
        if not 200 <= answered.status < 300:
            raise Refused.of(answered, body)
        said = f"{what} was answered with {answered.status} and"
        by = f"so not by the API: {body[:200]!r}"
        try:
            content = self.loads(body.decode()) if answered.status != 204 else None
        except ValueError as error:
            raise NoAnswer(f"{said} no JSON, {by}") from error
        if members is not None and not (isinstance(content, dict) and content.keys() >= {*members}):
            raise NoAnswer(f"{said} without what is due, {by}")
        return content


def _asked(source: Callable[[str | None], str], refused: str | None) -> str:
    """What the token function returns; whatever it raises is the cause of a `NoAnswer`."""
    try:
        token = source(refused)
    except Exception as error:
        failed = NoAnswer(f"Nothing was sent for want of a token: {error}")
        failed.may_pass = failed.may_be_done = False
        raise failed from error
    return checks.checked_token(token)


def _read(answered: urllib3.BaseHTTPResponse, left: Callable[[], float]) -> bytes:
    """The whole body, in time; a socket's timeout starts again with each byte."""
    parts = []
    # What `peek` has seen is read without waiting. If nothing more is due, `peek` would wait.
    while answered.length_remaining != 0 and (seen := answered._fp.peek(1)):  # type: ignore[attr-defined]
        parts.append(answered.read(len(seen)))
        if left() < 0:
            answered.close()
            raise TimeoutError("it did not end in time.")
    return b"".join([*parts, answered.read()])  # which gives the connection back


@cache
def _user_agent() -> str:
    return f"fanfold-python/{version('fanfold')}"

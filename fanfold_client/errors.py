"""How a request may fail, and whether it may succeed later."""

import json
from email.utils import parsedate_to_datetime

import urllib3

from fanfold import clock

# Momentary errors of the service, or of a gateway before it.
MOMENTARY = (429, 502, 503, 504)


class Failed(Exception):
    """`Refused` or `NoAnswer`; the text is a sentence.

    With `may_pass`, the request was repeated until its time was over; it may be sent again later.
    """

    may_pass = True
    # Whether this or an earlier attempt may have been carried out; only refusals say no.
    may_be_done = True
    retry_after = 0.0  # seconds that the answer asks to wait; 0 if it does not say
    request_id = ""  # API Gateway's id of the request, for its logs and operators
    key = ""  # of a publish: a call with it again is the same publish


class NoAnswer(Failed):
    """The API did not answer: the request may have been carried out, or not."""


class Refused(Failed):
    """An error answer with its problem document; docs/problems.md lists them all.

    `type` is the problem's name, such as `no-post`. It is empty if a gateway answered by itself;
    then `title` and `detail` are its words.
    """

    status = 0
    type = title = detail = ""

    @classmethod
    def of(cls, answer: urllib3.BaseHTTPResponse, body: bytes) -> "Refused":
        text = body.decode(errors="replace")
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        problem = content if isinstance(content, dict) else {}
        title = str(problem.get("title") or answer.reason or "")
        detail = str(problem.get("detail") or problem.get("message") or text[:200])
        # Its only argument is its text, so that it can be pickled.
        refused = cls(f"{answer.status} {title}: {detail}")
        refused.status, refused.title, refused.detail = answer.status, title, detail
        refused.type = str(problem.get("type", "")).rpartition("#")[2]
        # A gateway answers 500 if no function could run. The API's own 500 is a lasting fault.
        refused.may_pass = answer.status in MOMENTARY or (answer.status == 500 and not refused.type)
        refused.may_be_done = answer.status in MOMENTARY or answer.status >= 500
        refused.retry_after = _seconds(answer.headers.get("retry-after", ""))
        refused.request_id = answer.headers.get("apigw-requestid", "")
        return refused


def _seconds(wait: str) -> float:
    """How long a `Retry-After` asks to wait: a number of seconds, or a date."""
    if wait.isdecimal():
        return float(wait)
    try:
        until = parsedate_to_datetime(wait)
    except ValueError:
        return 0.0
    return max(0.0, until.timestamp() - clock.now_ms() / 1000)

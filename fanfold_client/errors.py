"""What a request may fail with, and whether the same one may succeed later."""

import json
from email.utils import parsedate_to_datetime

import urllib3

from fanfold import clock

# A moment's trouble of the service or of a gateway before it.
MOMENTARY = (429, 502, 503, 504)


class Failed(Exception):
    """`Refused` or `NoAnswer`; the text is a sentence.

    With `may_pass`, the request was repeated until its time was over; it may be sent again later.
    """

    may_pass = True
    # Whether any attempt may have been carried out, or this one; a refusal alone says no.
    may_be_done = True
    retry_after = 0.0  # seconds that the answer asks to wait; 0 if it does not say
    request_id = ""  # API Gateway's name of the request, which its logs and operators know
    key = ""  # of a publish: with it, another call is the same publish


class NoAnswer(Failed):
    """No answer of the API came: the request may have been carried out, or not."""


class Refused(Failed):
    """An answer that is no success, with its problem document; docs/problems.md has them all.

    `type` is the problem's name, such as `no-post`. It is empty where a gateway has answered by
    itself, and `title` and `detail` are its words then.
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
        # Its arguments are its text alone, so that it can be pickled.
        refused = cls(f"{answer.status} {title}: {detail}")
        refused.status, refused.title, refused.detail = answer.status, title, detail
        refused.type = str(problem.get("type", "")).rpartition("#")[2]
        # A gateway says 500 where no function could run. The API's own is a fault that stays.
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

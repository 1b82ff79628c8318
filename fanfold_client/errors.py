"""What a request may fail with, and whether the same one may succeed later."""

import json

import urllib3

# A moment's trouble of the service or of a gateway before it.
MOMENTARY = (429, 502, 503, 504)


class Failed(Exception):
    """`Refused` or `NoAnswer`; the text is a sentence.

    With `may_pass`, the request was repeated until its time was over; it may be sent again later.
    """

    may_pass = True
    retry_after = 0.0  # seconds that the answer asks to wait; 0 if it does not say


class NoAnswer(Failed):
    """No answer of the API came: the request may have been carried out, or not."""


class Refused(Failed):
    """An answer that is no success, with its problem document; docs/problems.md has them all.

    `type` is the problem's name, such as `no-post`. It is empty where a gateway has answered by
    itself, and `title` and `detail` are its words then.
    """

    def __init__(self, answer: urllib3.BaseHTTPResponse) -> None:
        text = answer.data.decode(errors="replace")
        try:
            content = json.loads(text)
        except ValueError:
            content = None
        problem = content if isinstance(content, dict) else {}
        self.status: int = answer.status
        self.type = str(problem.get("type", "")).rpartition("#")[2]
        self.title = str(problem.get("title") or answer.reason or "")
        self.detail = str(problem.get("detail") or problem.get("message") or text[:200])
        # A gateway says 500 where no function could run. The API's own is a fault that stays.
        self.may_pass = self.status in MOMENTARY or (self.status == 500 and not self.type)
        wait = answer.headers.get("retry-after", "")
        self.retry_after = float(wait) if wait.isdecimal() else 0.0
        super().__init__(f"{self.status} {self.title}: {self.detail}")

"""Reads a history from logs: plain lines, or as CloudWatch exports them."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fanfold import names
from fanfold.history import lines
from proof.simulation.oracle.follows import Asked

Pair = tuple[str, str]  # hashes of a user and a publisher

_START = f'{{"{lines.HISTORY}":'
# What a line of each kind must have; all may have the other members.
_ASKED = ("user", "publisher", "begin")
_NEEDED = {
    **dict.fromkeys((lines.FOLLOW, lines.UNFOLLOW, lines.MUTE, lines.UNMUTE), _ASKED),
    **dict.fromkeys((lines.REQUEST, lines.APPROVE, lines.REMOVE), _ASKED),
    **dict.fromkeys((lines.BLOCK, lines.UNBLOCK), _ASKED),
    lines.RETRACT: ("publisher", "post", "begin"),
    lines.PUBLISH: ("publisher", "post", "at", "begin", "end"),
    lines.COMPLETE: ("post", "begin", "end"),
    lines.PAGE: ("user", "posts", "limit", "begin", "end"),
}
_TYPES = {
    **dict.fromkeys(("user", "publisher", "post"), str),
    **dict.fromkeys(("begin", "end", "at", "from", "to", "limit"), int),
    "posts": list,
}
_BEGINS = (lines.FOLLOW, lines.MUTE, lines.APPROVE)
# The clocks that stamp requests, messages and answers differ by less (docs/api.md).
SKEW_MS = 1_000
# By then, a function that has written no answer has ended, and what it wrote has landed.
SETTLED_MS = 1000 * names.API.settled_seconds
# By then, RELATE has put the edge that the handling of a message could not put.
MESSAGE_SETTLED_MS = 1000 * names.PLAN.settled_seconds


class BadLine(Exception):
    """A line that is not what a stage writes; its text is a sentence."""


class Published(NamedTuple):
    publisher: str
    at: int  # the post's own time, by which pages are in order
    begin: float


class Completed(NamedTuple):
    at: float
    in_channel: bool


class Page(NamedTuple):
    user: str
    posts: list[str]
    begin: float
    end: float
    begin_ms: int  # as it was written
    covers: tuple[float, float]  # it shows all posts between these times
    is_wrong_size: bool
    ids_alone: bool


@dataclass
class Told:
    """A history. Spans are wider than written by `skew_ms` on both sides: they hold true times."""

    skew_ms: float
    posts: dict[str, Published] = field(default_factory=dict)
    completed: dict[str, Completed] = field(default_factory=dict)
    retracted: dict[str, list[tuple[float, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    follows: dict[Pair, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    mutes: dict[Pair, list[Asked]] = field(default_factory=lambda: defaultdict(list))
    pages: list[Page] = field(default_factory=list)
    begin: float = math.inf
    _requests: dict[tuple[Any, ...], Asked] = field(default_factory=dict)
    # When each request was answered that waits for its publisher.
    _waiting: dict[tuple[Any, ...], float] = field(default_factory=dict)

    def add(self, line: dict[str, Any]) -> None:
        """Add a line, in any order, perhaps twice."""
        kind, begin = line["kind"], line["begin"] - self.skew_ms
        end = line["end"] + self.skew_ms if "end" in line else math.inf
        self.begin = min(self.begin, begin)
        if kind == lines.PAGE:
            self._add_page(line, begin, end)
        elif kind == lines.PUBLISH:
            new = Published(line["publisher"], line["at"], begin)
            self.posts[line["post"]] = min(new, self.posts.get(line["post"], new), key=_begun)
        elif kind == lines.COMPLETE:
            done = Completed(end, bool(line.get("channel")))
            self.completed[line["post"]] = min(done, self.completed.get(line["post"], done))
        elif kind == lines.RETRACT:
            self.retracted[line["post"]].append((begin, end))
        elif kind != lines.UNBLOCK:  # nobody follows by it
            self._add_request(line, begin, end)

    def _add_page(self, line: dict[str, Any], begin: float, end: float) -> None:
        shown, limit = line["posts"], line["limit"]
        is_upwards = "from" not in line
        is_short = len(shown) < limit and bool(line.get("more")) and not line.get("partial")
        covers = line.get("from", math.inf), line.get("to", math.inf)
        is_wrong_size = len(shown) > limit or (is_short and not is_upwards)
        about = begin, end, line["begin"], covers, is_wrong_size, bool(line.get("ids"))
        self.pages.append(Page(line["user"], shown, *about))

    def _add_request(self, line: dict[str, Any], begin: float, end: float) -> None:
        """A change of a relation: written as it begins, once it was accepted, and for each copy.

        Without an answer, a request may have taken effect until its function has surely ended.
        Once a message was handled, its copies have no effect.
        """
        kind, user, publisher = line["kind"], line["user"], line["publisher"]
        is_message, waits = bool(line.get("queue")), kind == lines.REQUEST
        kind = lines.FOLLOW if waits else kind
        key = kind, user, publisher, line["begin"], is_message
        if key not in self._requests:
            asked = Asked(
                kind in _BEGINS,
                begin,
                math.inf if is_message else begin + SETTLED_MS,
                is_message=is_message,
                is_due=False,
                stamp=line["begin"],
            )
            among = self.mutes if kind in (lines.MUTE, lines.UNMUTE) else self.follows
            among[user, publisher].append(asked)
            self._requests[key] = asked
        asked = self._requests[key]
        if waits:
            self._waiting[key] = end
        elif "end" in line:
            asked.ended = min(end, asked.ended) if asked.is_due else end
            asked.is_due = True
            asked.seen_by = asked.ended + MESSAGE_SETTLED_MS if is_message else math.nan

    def settle(self) -> None:
        """Bound the requests to private publishers, once all lines are read.

        One that waits may become a follow at any time until it is ended. What a publisher ends may
        be so in spite of a follow that was asked for later, or yield to it, where both overlap.
        """
        for key, answered in self._waiting.items():
            asked = self._requests[key]
            others = [each for each in self.follows[key[1], key[2]] if not each.follows]
            ends = [each.ended for each in others if each.is_due and each.begun > answered]
            asked.ended = asked.ended if asked.is_due else min(ends, default=math.inf)
        for (kind, user, publisher, stamp, _), asked in self._requests.items():
            if kind in (lines.REMOVE, lines.BLOCK) and any(
                each.follows
                and each.stamp >= stamp - 2 * self.skew_ms
                and each.begun <= asked.ended
                for each in self.follows[user, publisher]
            ):
                asked.is_import, asked.is_due = True, False


def _begun(post: Published) -> float:
    return post.begin


def read(texts: Iterable[tuple[str, str]], *, skew_ms: float = SKEW_MS) -> Told:
    """The history in logs, each with its name; raises `BadLine`."""
    told = Told(skew_ms)
    for name, text in texts:
        for place, raw in _found(text):
            try:
                line = _checked(raw)
            except BadLine as bad:
                raise BadLine(f"{name}, {place}: {bad}") from None
            if line is not None:
                told.add(line)
    told.settle()
    return told


def _found(text: str) -> Iterator[tuple[str, str]]:
    """Everything that may be a line of a history, and where it stands."""
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and isinstance(whole.get("events"), list):
        for number, event in enumerate(whole["events"], 1):
            yield f"event {number}", str(event.get("message", ""))
        return
    for number, line in enumerate(text.splitlines(), 1):
        yield f"line {number}", _unwrapped(line)


def _unwrapped(line: str) -> str:
    """The message of an exported event; otherwise the line without a time before it."""
    if _START in line:
        return line
    start = line.find("{")
    try:
        content = json.loads(line[start:]) if start >= 0 else None
    except ValueError:
        content = None
    if isinstance(content, dict):
        for name in ("message", "@message"):
            if isinstance(content.get(name), str):
                return str(content[name])
    return line


def _checked(text: str) -> dict[str, Any] | None:
    """A line of a history; None for any other; raises `BadLine`."""
    # `aws logs tail` writes a time and a stream before it.
    start = text.find(_START)
    if start < 0:
        return None
    try:
        line, _ = json.JSONDecoder().raw_decode(text[start:])
    except ValueError:
        raise BadLine("this line of the history is cut off or changed; export it again.") from None
    if line[lines.HISTORY] != lines.VERSION:
        raise BadLine(
            f"this history has version {line[lines.HISTORY]!r}, and this judge reads "
            f"{lines.VERSION}; take the judge of the version that is deployed."
        )
    needed = _NEEDED.get(line.get("kind"))
    if needed is None:
        raise BadLine(f"a history has no lines of kind {line.get('kind')!r}.")
    wrong = [name for name in needed if name not in line]
    wrong += [name for name, type_ in _TYPES.items() if type(line.get(name, type_())) is not type_]
    if not wrong and not all(isinstance(post, str) for post in line.get("posts", ())):
        wrong.append("posts")
    if wrong:
        raise BadLine(f"this {line['kind']} has no {wrong[0]}, or one that is not readable.")
    return dict(line)

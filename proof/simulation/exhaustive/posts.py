"""Scopes of one post: edits by HTTP and by message, a retraction and a late publish at once.

Whatever the order, a row goes on from no post to a post, to ever later edits, to a tombstone, and
never back. So each answer has to be true of the row at the time it is given.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from fanfold import contract, names, times
from fanfold.aws.items import get_text
from proof.model.clock import START_MS
from proof.simulation.exhaustive.deliveries import PUBLISHER, REF_ID
from proof.simulation.exhaustive.doors import Program
from proof.simulation.exhaustive.scopes import Scope, http
from proof.simulation.exhaustive.states import Happened, Letter
from proof.simulation.exhaustive.store import TABLES, Contents

HOUR_MS = 60 * 60 * 1000
TYPES = {
    "post": contract.POST_PUBLISHED,
    "edit": contract.POST_UPDATED,
    "retract": contract.POST_DELETED,
}
ROUTES = {"edit": contract.EDIT_POST, "retract": contract.RETRACT_POST}


class Act(NamedTuple):
    """What the publisher does; `at` is its stamp in milliseconds after the start."""

    verb: str
    at: int
    by_message: bool = False

    @property
    def name(self) -> str:
        return f"{self.verb} at {self.at}"

    @property
    def body(self) -> dict[str, Any]:
        return {} if self.verb == "retract" else {"body": {"n": self.at}}

    @property
    def edited_at(self) -> str:
        return times.to_text(START_MS + self.at)

    def program(self) -> Program:
        path = {"ref_id": REF_ID}
        at = START_MS + self.at
        event = http(ROUTES[self.verb], PUBLISHER, at=at, path=path, body=self.body or None)
        return Program(self.name, names.API.name, json.dumps(event), at, names.API.seconds)

    def letter(self) -> Letter:
        ids = {"publisher_id": PUBLISHER, "ref_id": REF_ID}
        body = json.dumps({"version": 1, "type": TYPES[self.verb], **ids, **self.body})
        return Letter(names.PUBLISH.name, body, PUBLISHER, START_MS + self.at)


class PostScope(Scope):
    """What one publisher does about one post that nobody follows."""

    acts: tuple[Act, ...] = ()

    def act(self, acts: Iterable[Act], *, is_published: bool, faults: int) -> None:
        """Let all begin at once."""
        self.acts = tuple(acts)
        self.is_published = is_published
        if is_published:
            at = START_MS - HOUR_MS
            event = http(contract.PUBLISH_POST, PUBLISHER, at=at, body={"body": {}})
            assert not self.run("api", event, at=at).is_failure
            (order,) = self.letters
            self.receive(order, at=at)
        self.letters = [each.letter() for each in self.acts if each.by_message]
        self.begin([each.program() for each in self.acts if not each.by_message], faults)

    def row(self, contents: Contents) -> dict[str, Any]:
        """The row of the post; empty before there is one."""
        rows = self.store.items[contents[TABLES[names.POSTS.name]]]
        return dict(next(iter(rows), {}))

    def is_open(self, contents: Contents) -> bool:
        return any("open_fanout" in row for row in self.store.rows(contents, names.FANOUTS))

    def remember(self, ghost: Hashable, happened: Happened) -> tuple[Hashable, str]:
        before, after = self.row(happened.before), self.row(happened.after)
        broken = "" if before == after else self._changed(before, after)
        if not broken and happened.end is not None:
            broken = self._ended(happened, after)
        return ghost, broken

    def _changed(self, before: dict[str, Any], after: dict[str, Any]) -> str:
        if "deleted_at" in after:
            left = after.keys() & {"body", "first_body_hash", "edited_at"}
            return f"a tombstone has {sorted(left)}" if left else ""
        if "deleted_at" in before:
            return "a retracted post is back"
        edited_at = get_text(after, "edited_at")
        if edited_at < get_text(before, "edited_at"):
            return f"the edit of {before['edited_at']['S']} is undone"
        wanted = [each.body["body"] for each in self.acts if each.edited_at == edited_at]
        if edited_at and json.loads(after["body"]["S"]) not in wanted:
            return f"the edit of {edited_at} has the body {after['body']['S']}"
        return ""

    def _ended(self, happened: Happened, row: dict[str, Any]) -> str:
        """What is not true of an answer, or of a message that is deleted."""
        act = self._served(happened)
        if act is None or happened.end is None:
            return ""
        if act.by_message and not happened.is_acknowledged:
            return ""
        end: Any = happened.end.end
        status = 200 if act.by_message else end.get("statusCode", 0)
        is_retracted, edited_at = "deleted_at" in row, get_text(row, "edited_at")
        told = f"{act.name} ended with {status}, and the row is {row}"
        if status == 404:
            return told if self.is_published else ""
        if act.verb == "retract":
            return "" if is_retracted or status >= 500 else told
        if act.verb == "post":
            return "" if row else told
        is_true = {
            200: is_retracted or edited_at >= act.edited_at,
            409: is_retracted or edited_at > act.edited_at,
            410: is_retracted,
        }
        return "" if status >= 500 or is_true.get(status) else told

    def _served(self, happened: Happened) -> Act | None:
        letter = happened.letter
        for each in self.acts:
            if letter is not None and each.by_message:
                if letter.body == each.letter().body and letter.queue == names.PUBLISH.name:
                    return each
            elif letter is None and happened.program.name == each.name:
                return each
        return None

    def broken_when_quiet(
        self, contents: Contents, letters: Iterable[Letter], ghost: Hashable
    ) -> str:
        """Only an edit may be a dead letter, which came often enough before its post did."""
        early = [each.letter().body for each in self.acts if each.verb == "edit"]
        left = [each for each in letters if self.is_published or each.body not in early]
        if left:
            return f"in the end there are dead letters: {left}"
        row = self.row(contents)
        if not row and (self.is_published or any(each.verb == "post" for each in self.acts)):
            return "in the end there is no post"
        return ""


EDIT, LATER_EDIT, RETRACT = Act("edit", 1), Act("edit", 3), Act("retract", 2)


def _message(verb: str, at: int) -> Act:
    return Act(verb, at, by_message=True)


# By name: what is done, and whether the post is published at first.
SCOPES: dict[str, tuple[tuple[Act, ...], bool]] = {
    "edit, message to edit, retract": ((EDIT, _message("edit", 3), RETRACT), True),
    "three edits": ((EDIT, _message("edit", 2), LATER_EDIT), True),
    "late post, message to edit, edit": (
        (_message("post", 0), _message("edit", 1), LATER_EDIT),
        False,
    ),
    "late post, message to edit, edit, retract": (
        (_message("post", 0), _message("edit", 1), LATER_EDIT, RETRACT),
        False,
    ),
    "late post, message to edit, message to retract": (
        (_message("post", 0), _message("edit", 1), _message("retract", 2)),
        False,
    ),
}


def post(name: str, *, faults: int = 0) -> PostScope:
    """A scope of a post; only inside `installed()`."""
    acts, is_published = SCOPES[name]
    scope = PostScope(name)
    scope.act(acts, is_published=is_published, faults=faults)
    return scope

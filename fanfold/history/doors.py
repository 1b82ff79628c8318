"""Writes the history of a stage: a line for each accepted request and for each page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fanfold import clock, contract, cursor, times
from fanfold.history import lines
from fanfold.ids import split_sort_key

if TYPE_CHECKING:
    from fanfold.contract import Route
    from fanfold.settings import Settings

DAY_MS = 24 * 60 * 60 * 1000
USER, PUBLISHER, POST = "user", "publisher", "post"
# Of requests and messages: the kind of line, and what the two ids in it are.
RELATION, FOLLOWER, OWN_POST = (USER, PUBLISHER), (PUBLISHER, USER), (PUBLISHER, POST)
_ROUTES = {
    contract.FOLLOW: (lines.FOLLOW, RELATION, "publisher_id"),
    contract.UNFOLLOW: (lines.UNFOLLOW, RELATION, "publisher_id"),
    contract.APPROVE: (lines.APPROVE, FOLLOWER, "user_id"),
    contract.REMOVE: (lines.REMOVE, FOLLOWER, "user_id"),
    contract.BLOCK: (lines.BLOCK, FOLLOWER, "user_id"),
    contract.UNBLOCK: (lines.UNBLOCK, FOLLOWER, "user_id"),
    contract.MUTE: (lines.MUTE, RELATION, "publisher_id"),
    contract.UNMUTE: (lines.UNMUTE, RELATION, "publisher_id"),
    contract.RETRACT_POST: (lines.RETRACT, OWN_POST, "ref_id"),
}
_MESSAGES = {
    contract.FOLLOW_ADDED: (lines.FOLLOW, RELATION, ("user_id", "publisher_id")),
    contract.FOLLOW_REMOVED: (lines.UNFOLLOW, RELATION, ("user_id", "publisher_id")),
    contract.FOLLOWER_APPROVED: (lines.APPROVE, RELATION, ("user_id", "publisher_id")),
    contract.FOLLOWER_REMOVED: (lines.REMOVE, RELATION, ("user_id", "publisher_id")),
    contract.USER_BLOCKED: (lines.BLOCK, RELATION, ("user_id", "publisher_id")),
    contract.USER_UNBLOCKED: (lines.UNBLOCK, RELATION, ("user_id", "publisher_id")),
    contract.POST_DELETED: (lines.RETRACT, OWN_POST, ("publisher_id", "ref_id")),
}
Take = Callable[[Any], Any]


class History:
    """The history of one stage. Without the setting, there is none, and nothing is written."""

    def __init__(self, settings: Settings, print_line: Callable[[str], None]) -> None:
        # No other stage has its tables, and CloudFormation names those of a new stage anew.
        self._stage, self._retention_ms = settings.timelines_table, settings.retention_days * DAY_MS
        self._print_line = print_line

    def of_requests(self, actions: Mapping[Route, Take]) -> dict[Route, Any]:
        """The actions of HTTP routes; each writes its lines, too."""
        return {route: self._of_request(route, action) for route, action in actions.items()}

    def of_messages(self, take: Take) -> Take:
        """`take`, which handles received messages; it writes lines of those that change something.

        A published post has its line by `published`.
        """

        def take_and_write(received: Any) -> Any:
            message = received.message
            if message.type not in _MESSAGES:
                return take(received)
            kind, roles, fields = _MESSAGES[message.type]
            ids = dict(zip(roles, (getattr(message, each) for each in fields), strict=True))
            at = received.first_sent_at
            return self._change(kind, ids, at, lambda: take(received), is_message=True)

        return take_and_write

    def published(self, post: Any, *, is_message: bool = False) -> None:
        """An accepted post: with `publisher_id`, `ref_id`, `accepted_at` and `published_at`."""
        self._write(
            lines.PUBLISH,
            {"publisher": post.publisher_id, "post": post.ref_id},
            at=times.to_ms(post.published_at),
            begin=times.to_ms(post.accepted_at),
            end=clock.now_ms(),
            queue=is_message,
        )

    def completed(self, ref_id: str, *, in_channel: bool = False) -> None:
        """A delivery that the caller has just completed."""
        now_ms = clock.now_ms()
        self._write(lines.COMPLETE, {"post": ref_id}, begin=now_ms, end=now_ms, channel=in_channel)

    def _of_request(self, route: Route, action: Take) -> Take:
        def change(request: Any) -> Any:
            kind, roles, name = _ROUTES[route]
            ids = dict(zip(roles, (request.user_id, request.path_id(name)), strict=True))
            return self._change(kind, ids, request.received_at, lambda: action(request))

        def publish(request: Any) -> Any:
            answer = action(request)
            told = json.loads(answer["body"])
            self.published(SimpleNamespace(publisher_id=request.user_id, **told))
            return answer

        def read(request: Any) -> Any:
            answer = action(request)
            self._page(request, json.loads(answer["body"]))
            return answer

        if route in _ROUTES:
            return change
        return {contract.PUBLISH_POST: publish, contract.READ_TIMELINE: read}.get(route, action)

    def _change(
        self,
        kind: str,
        ids: Mapping[str, str],
        begin: int,
        make: Callable[[], Any],
        *,
        is_message: bool = False,
    ) -> Any:
        """Make a change, with a line before it and one after it; a block is of both directions."""
        is_block = kind == lines.BLOCK
        pairs = [ids, {USER: ids[PUBLISHER], PUBLISHER: ids[USER]}] if is_block else [ids]
        for each in pairs:
            self._write(kind, each, begin=begin, queue=is_message)
        answer = make()
        if done := _done(kind, answer):
            for each in pairs:
                self._write(done, each, begin=begin, end=clock.now_ms(), queue=is_message)
        return answer

    def _page(self, request: Any, page: Mapping[str, Any]) -> None:
        query, end = request.query, clock.now_ms()
        is_upwards = "after" in query
        lowest, highest = [end - self._retention_ms], list[int]()
        for name, bounds in (("from", lowest), ("to", highest)):
            if name in query:
                bounds.append(times.to_ms(times.from_date_or_time(query[name], field=name)))
        for place, bounds in ((page["next"], lowest), (query.get("before"), highest)):
            if place:
                # A cursor's position is a key or a time.
                key = cursor.decode(place, is_position=lambda _: True).position
                bounds.append(times.to_ms(split_sort_key(key)[0]))
        self._write(
            lines.PAGE,
            {"user": request.user_id},
            begin=request.received_at,
            end=end,
            posts=[lines.hashed(self._stage, each["ref_id"]) for each in page["entries"]],
            limit=request.limit(),
            to=min(highest, default=None),
            more=page["next"] is not None,
            partial=page.get("partial"),
            ids=query.get("hydrate") == "false",
            **({} if is_upwards else {"from": max(lowest)}),
        )

    def _write(self, kind: str, ids: Mapping[str, str], /, **members: Any) -> None:
        hashes = {role: lines.hashed(self._stage, each) for role, each in ids.items()}
        self._print_line(lines.write(kind, **hashes, **members))


def _done(kind: str, answer: Any) -> str | None:
    """The kind of the second line, by an answer over HTTP, or by the relation after a message.

    None for a follow or approval that was dropped.
    """
    if isinstance(answer, dict):
        return lines.REQUEST if answer["statusCode"] == contract.FOLLOW.also else kind
    if kind not in (lines.FOLLOW, lines.APPROVE):
        return kind
    if answer is None or (kind == lines.APPROVE and not answer.is_active):
        return None
    return lines.REQUEST if answer.is_requested else kind

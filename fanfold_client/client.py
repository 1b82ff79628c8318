"""Every route of docs/api.md as a method, and pages as iterators."""

import json
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import urllib3

from fanfold import answers, clock, contract, json_text
from fanfold_client import checks, retries
from fanfold_client.connections import pool_for
from fanfold_client.errors import Failed


@dataclass
class Fanfold:
    """The API at `url` as the user of an access token; threads may share it.

    Ids are strings, times RFC 3339 texts, bodies dicts. Results are the dicts of `fanfold.answers`;
    they may gain members. Each method may raise `Refused`, `NoAnswer`, and `ValueError` for what
    cannot be sent. Without an answer, or after a momentary error (429, 502, 503, 504), the request
    is repeated for `seconds`; its effect happens once. Each page counts as a request.
    """

    url: str
    # Or a function that returns one. It is called with None before each attempt; after a 401, once
    # with the refused token, however many threads had sent that.
    token: str | Callable[[str | None], str] = field(repr=False)
    seconds: float = 60.0
    # For many clients that share connections; without it, a client makes its own.
    pool: urllib3.PoolManager | None = field(default=None, repr=False)
    # Reads answers; another function may keep what a float would round.
    loads: Callable[[str], Any] = field(default=json.loads, repr=False)
    # Called with each failure that is tried again.
    on_retry: Callable[[Failed], object] = field(default=lambda _: None, repr=False)

    def __post_init__(self) -> None:
        self._address = checks.checked_url(self.url)
        pool = self.pool or pool_for(self.url)
        self._sender = retries.Sender(pool, self.token, self.loads, self.on_retry, self.seconds)

    def publish(
        self,
        body: dict[str, Any] | None = None,
        *,
        published_at: str | None = None,
        key: str | None = None,
    ) -> answers.Accepted:
        """Publish a post. Calls with the same `key` publish once; without, each call publishes."""
        content = {"body": body, "published_at": published_at}
        key = clock.new_id() if key is None else key
        try:
            return self._call(contract.PUBLISH_POST, content, key=key, has=("ref_id",))
        except Failed as failed:
            failed.key = key
            raise

    def post(self, ref_id: str) -> answers.Post:
        return self._call(contract.READ_POST, ref_id=ref_id)

    def edit(self, ref_id: str, body: dict[str, Any]) -> answers.Edited:
        return self._call(contract.EDIT_POST, {"body": body}, ref_id=ref_id)

    def retract(self, ref_id: str) -> None:
        self._call(contract.RETRACT_POST, ref_id=ref_id)

    def delivery(self, ref_id: str) -> answers.Delivery:
        """The progress of one's own post. `state` says when it is complete; no count does."""
        return self._call(contract.SHOW_DELIVERY, has=("state",), ref_id=ref_id)

    def follow(self, publisher_id: str) -> answers.Followed | answers.Requested:
        """Follow, or ask a publisher who approves its followers: the result has `state` then."""
        return self._call(contract.FOLLOW, publisher_id=publisher_id)

    def unfollow(self, publisher_id: str) -> None:
        self._call(contract.UNFOLLOW, publisher_id=publisher_id)

    def relation(self, publisher_id: str) -> answers.Related:
        """The user's follow of this publisher, or the request that waits."""
        return self._call(contract.SHOW_FOLLOWING, has=("state",), publisher_id=publisher_id)

    def following(self) -> Iterator[answers.Followed]:
        return self._list(contract.LIST_FOLLOWING, "following")

    def sent_requests(self) -> Iterator[answers.Requested]:
        """The user's own requests that wait."""
        return self._list(contract.LIST_FOLLOWING, "following", {"state": contract.REQUESTED})

    def me(self) -> answers.Me:
        return self._call(contract.SHOW_PRIVACY, has=("private",))

    def set_private(self, private: bool) -> answers.Me:
        """Approve each new follower from now on, or let everybody follow."""
        return self._call(contract.CHOOSE_PRIVACY, {"private": private}, has=("private",))

    def requests(self) -> Iterator[answers.FollowRequest]:
        """Who asks to follow the user, newest first."""
        return self._list(contract.LIST_REQUESTS, "requests")

    def approve(self, user_id: str) -> answers.Approved:
        return self._call(contract.APPROVE, user_id=user_id)

    def remove(self, user_id: str) -> None:
        """Deny a request, or end the user's follow."""
        self._call(contract.REMOVE, user_id=user_id)

    def block(self, user_id: str) -> None:
        self._call(contract.BLOCK, user_id=user_id)

    def unblock(self, user_id: str) -> None:
        self._call(contract.UNBLOCK, user_id=user_id)

    def blocked(self) -> Iterator[answers.Blocked]:
        return self._list(contract.LIST_BLOCKED, "blocked")

    def mute(self, publisher_id: str) -> None:
        self._call(contract.MUTE, publisher_id=publisher_id)

    def unmute(self, publisher_id: str) -> None:
        self._call(contract.UNMUTE, publisher_id=publisher_id)

    def muted(self) -> Iterator[answers.Muted]:
        return self._list(contract.LIST_MUTED, "muted")

    def followers(self, publisher_id: str) -> Iterator[answers.Follower]:
        return self._list(contract.LIST_FOLLOWERS, "followers", publisher_id=publisher_id)

    def count_followers(self, publisher_id: str) -> answers.FollowersCount:
        return self._call(contract.COUNT_FOLLOWERS, publisher_id=publisher_id)

    def marker(self) -> answers.Marker:
        return self._call(contract.READ_MARKER)

    def move_marker(self, published_at: str, ref_id: str) -> answers.MovedMarker:
        """Mark an entry and all below it as read. Returns the marker, which only moves up."""
        return self._call(contract.MOVE_MARKER, {"published_at": published_at, "ref_id": ref_id})

    def unread(self) -> answers.Unread:
        return self._call(contract.COUNT_UNREAD)

    @property
    def timeline(self) -> "Entries":
        return Entries(self, contract.READ_TIMELINE, {})

    def feed(self, publisher_id: str) -> "Entries":
        """The publisher's own posts, whether or not the user follows."""
        return Entries(self, contract.READ_FEED, {"publisher_id": publisher_id})

    def _list(
        self, route: contract.Route, member: str, only: dict[str, str] | None = None, **ids: str
    ) -> Iterator[Any]:
        query: dict[str, Any] = {"limit": contract.MAX_LIMIT, **(only or {})}
        while True:
            page = self._call(route, query=query, has=(member, "next"), **ids)
            yield from page[member]
            if page["next"] is None:
                return
            query["cursor"] = page["next"]

    def _call(
        self,
        route: contract.Route,
        content: Any = None,
        *,
        key: str | None = None,
        query: dict[str, Any] | None = None,
        has: tuple[str, ...] = (),
        **ids: str,
    ) -> Any:
        url = self._address + checks.path_of(route, ids, query or {})
        text = None if content is None else json_text.write(checks.exact(content))
        body = None if text is None else checks.encoded("The post", text)
        headers = {} if key is None else {"idempotency-key": checks.checked_key(key)}
        if body is not None:
            headers["content-type"] = "application/json"
        if route in (contract.EDIT_POST, contract.CHOOSE_PRIVACY):
            headers[contract.REQUEST_AGE] = "0"  # each attempt then sets its own
        request = retries.Request(route.method, url, body, headers)
        return self._sender.answer(request, None if route.status == 204 else has)


class Entries(NamedTuple):
    """A timeline or a feed. Its pages are newest first in both directions."""

    client: Fanfold
    route: contract.Route
    ids: dict[str, str]

    def page(
        self,
        *,
        limit: int = contract.DEFAULT_LIMIT,
        before: str | None = None,
        after: str | None = None,
        since: str | None = None,
        until: str | None = None,
        hydrate: bool = True,
    ) -> answers.TimelinePage:
        """Return one page: below the cursor `before`, or the oldest above `after`.

        `since` (inclusive) and `until` are times. Without `hydrate`, entries have no body.
        """
        places = {"before": before, "after": after, "from": since, "to": until}
        query: dict[str, Any] = {"limit": limit}
        query |= {name: place for name, place in places.items() if place is not None}
        query |= {} if hydrate else {"hydrate": "false"}
        return self.client._call(
            self.route, query=query, has=("entries", "next", "previous"), **self.ids
        )

    def older(
        self, before: str | None = None, *, limit: int = contract.MAX_LIMIT, **bounds: Any
    ) -> Iterator[answers.TimelineEntry]:
        """Every entry from the newest, or from the cursor `before`, down to the end.

        `limit` is that of each page; `since`, `until` and `hydrate` are as for `page`.
        """
        while True:
            page = self.page(limit=limit, before=before, **bounds)
            yield from page["entries"]
            before = page["next"]
            if before is None:
                return

    def newer(
        self, previous: str, *, have: Container[str] = (), limit: int = contract.MAX_LIMIT
    ) -> Iterator[answers.TimelinePage]:
        """Pages of entries that came after the `previous` of a page, from the bottom up.

        Late entries are among them. Keep the `previous` of the last page for the next call. Entries
        whose `ref_id` you `have`, or that come twice in these pages, are left out.
        """
        seen, has_more = set[str](), True
        while has_more:
            page = self.page(limit=limit, after=previous)
            ids = [entry["ref_id"] for entry in page["entries"]]
            known = {ref_id for ref_id in ids if ref_id in seen or ref_id in have}
            seen.update(ids)
            page["entries"] = [each for each in page["entries"] if each["ref_id"] not in known]
            previous, has_more = page["previous"], page.get("more", False)
            yield page

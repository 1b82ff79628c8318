"""Any sequence of what publishers and readers do, beside a plain model of each timeline.

The real functions run on the model of AWS; reads may be five seconds old, and messages wait in
their queues until the test lets them go.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from fanfold import contract, cursor, times
from fanfold.cursor import Cursor, hashed
from fanfold.ids import sort_key, split_sort_key
from simulation import requests
from simulation.lambdas import installed
from simulation.world import World
from tests.simulation.spoilings import calm

READERS, PUBLISHERS = ("ann", "bob"), ("p0", "p1", "p2")
# The longest lag of a read, and a little.
SETTLED_SECONDS = 6.0
# With fewer entries, no page meets a bound.
FEWEST_AT_A_BOUND = 200
# The seconds over which the first posts are spread.
SPREAD = 10
limits = st.sampled_from((1, 2, 3, 5, 20, 100))
readers, publishers = st.sampled_from(("ann", *READERS)), st.sampled_from(PUBLISHERS)


@dataclass
class Post:
    publisher: str
    key: str
    body: dict[str, Any]
    is_retracted: bool = False


@dataclass
class Client:
    """What one client has seen, who keeps the cursor of its last page upwards."""

    user: str
    previous: str
    shown: list[str] = field(default_factory=list)  # sort keys
    # Those that landed above the low mark, and when, in epoch milliseconds.
    owed: dict[str, float] = field(default_factory=dict)


def key_of(entry: dict[str, Any]) -> str:
    return sort_key(entry["published_at"], entry["ref_id"])


def ref_of(key: str) -> str:
    return split_sort_key(key)[1]


def place(text: str) -> Cursor:
    return cursor.decode(text, is_position=bool)


class Timelines(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(installed())
        self.world: World = calm()
        self.follows: dict[str, set[str]] = {reader: set() for reader in READERS}
        self.posts: dict[str, Post] = {}  # by `ref_id`
        self.landed_ms: dict[tuple[str, str], float] = {}  # by user and sort key
        self.clients: dict[str, Client] = {}
        self.number = 0

    def teardown(self) -> None:
        self.stack.close()

    def act(self, act: Any) -> Any:
        """Let a client act, and everything come to rest."""
        found: list[Any] = []
        self.world.run(lambda world: world.start_client("client", lambda: found.append(act(world))))
        return found[0]

    def ask(self, user: str, **query: str) -> dict[str, Any]:
        status, page = self.act(
            lambda world: requests.call(world, user, contract.READ_TIMELINE, query=query)
        )
        assert status == 200, page
        entries: list[dict[str, Any]] = page["entries"]
        assert len(entries) <= int(query.get("limit", 50))
        keys = [key_of(entry) for entry in entries]
        assert keys == sorted(keys, reverse=True)
        if "partial" in page:
            assert len(self.keys(user, left_out=True)) >= FEWEST_AT_A_BOUND
        elif "more" in page or ("after" not in query and page["next"]):
            assert len(entries) == int(query.get("limit", 50))
        return page  # type: ignore[no-any-return]

    @initialize(count=st.sampled_from((0, 3, 20, 80)), limit=limits)
    def begin(self, count: int, limit: int) -> None:
        """Both follow two publishers, who have posted, and open their timelines."""
        for user in READERS:
            for publisher in PUBLISHERS[:2]:
                self.follow(user, publisher)
        for _ in range(min(count, SPREAD)):
            self.publish(PUBLISHERS[self.number % 2], count=max(count // SPREAD, 1))
            self.world.clock.advance(1)
        for user in READERS:
            self.open(user, limit)

    @rule(user=readers, publisher=publishers)
    def follow(self, user: str, publisher: str) -> None:
        self.act(lambda world: requests.relate(world, "follow", user, publisher))
        self.follows[user].add(publisher)

    @rule(user=readers, publisher=publishers)
    def unfollow(self, user: str, publisher: str) -> None:
        self.act(lambda world: requests.relate(world, "unfollow", user, publisher))
        self.follows[user].discard(publisher)
        if client := self.clients.get(user):  # it has to begin anew after the next follow
            hidden = [key for key in client.owed if self.posts[ref_of(key)].publisher == publisher]
            for key in hidden:
                del client.owed[key]

    @rule(publisher=publishers, count=st.sampled_from((1, 1, 3, 30)))
    def publish(self, publisher: str, count: int) -> None:
        """Some posts of this millisecond."""
        self.post(publisher, count, self.world.clock.now_ms())

    @precondition(lambda self: self.posts)
    @rule(publisher=publishers, count=st.sampled_from((1, 1, 3, 30)), data=st.data())
    def publish_late(self, publisher: str, count: int, data: st.DataObject) -> None:
        """Some posts just above one that is there."""
        ref_id = data.draw(st.sampled_from(sorted(self.posts)))
        at = split_sort_key(self.posts[ref_id].key)[0]
        self.post(publisher, count, times.to_ms(at) + data.draw(st.sampled_from((0, 1, 500))))

    def post(self, publisher: str, count: int, at_ms: int) -> None:
        at = times.to_text(min(at_ms, self.world.clock.now_ms()))
        names_ = [f"{publisher}-{self.number + each}" for each in range(count)]
        self.number += count

        def send(world: World) -> None:
            for name in names_:
                requests.by_queue(world, publisher, name, published_at=at)

        self.act(send)
        for name in names_:
            self.posts[name] = Post(publisher, sort_key(at, name), {"title": name})
            for user in READERS:
                if publisher in self.follows[user]:
                    self.lands(user, self.posts[name].key)

    def lands(self, user: str, key: str) -> None:
        now_ms = self.landed_ms[user, key] = self.world.clock.now_ms()
        client = self.clients.get(user)
        if client and key > place(client.previous).low:
            client.owed[key] = now_ms

    def is_shown(self, user: str, key: str) -> bool:
        """Whether an entry is neither of a retracted post nor of a publisher not followed now."""
        post = self.posts[ref_of(key)]
        return not post.is_retracted and post.publisher in self.follows[user]

    def keys(self, user: str, *, left_out: bool = False) -> list[str]:
        """The model's timeline, newest first, perhaps with what is left out."""
        return sorted(
            (
                key
                for owner, key in self.landed_ms
                if owner == user and (left_out or self.is_shown(user, key))
            ),
            reverse=True,
        )

    def is_settled(self, now_ms: float) -> bool:
        """Whether every read shows all that was written."""
        return now_ms - max(self.landed_ms.values(), default=0.0) > 1000 * SETTLED_SECONDS

    @precondition(lambda self: self.posts)
    @rule(data=st.data(), count=st.sampled_from((1, 1, 20)))
    def retract(self, data: st.DataObject, count: int) -> None:
        """Some posts that follow each other."""
        refs = sorted(self.posts)
        start = data.draw(st.integers(0, len(refs) - 1))
        some = refs[start : start + count]

        def retract(world: World) -> None:
            for ref_id in some:
                requests.retract(world, self.posts[ref_id].publisher, ref_id)

        self.act(retract)
        for ref_id in some:
            self.posts[ref_id].is_retracted = True

    @rule(seconds=st.sampled_from((0.1, SETTLED_SECONDS, 3_600.0)))
    def wait(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @precondition(lambda self: any(not each.is_retracted for each in self.posts.values()))
    @rule(data=st.data())
    def edit(self, data: st.DataObject) -> None:
        live = sorted(ref for ref, post in self.posts.items() if not post.is_retracted)
        ref_id = data.draw(st.sampled_from(live))
        post = self.posts[ref_id]
        body = {"title": f"{ref_id} at {self.world.clock.now_ms()}"}
        path = {"ref_id": ref_id}
        status, _ = self.act(
            lambda world: requests.call(
                world, post.publisher, contract.EDIT_POST, path=path, body={"body": body}
            )
        )
        assert status < 300
        post.body = body

    @rule(user=readers, limit=limits)
    def open(self, user: str, limit: int) -> None:
        """A client begins anew, with the newest page."""
        now_ms = self.world.clock.now_ms()
        page = self.ask(user, limit=str(limit))
        client = Client(user, page["previous"])
        client.shown += map(key_of, page["entries"])
        low = place(client.previous).low
        for key in self.keys(user):
            if key > low and key not in client.shown:
                client.owed[key] = self.landed_ms[user, key]
        self.clients[user] = client
        if self.is_settled(now_ms):
            assert not client.owed
            assert client.shown == self.keys(user)[:limit]

    @rule(user=readers, limit=limits, times_=st.integers(1, 3))
    def look_for_newer(self, user: str, limit: int, times_: int) -> None:
        """A client asks upwards, perhaps not to the end."""
        client = self.clients.get(user)
        for _ in range(times_):
            if client:
                self.climb(client, limit)

    @rule(user=readers, limit=limits)
    def look_for_all_that_is_newer(self, user: str, limit: int) -> None:
        """Up to the end, everything that landed above the low mark has been shown once."""
        client = self.clients.get(user)
        if client is None:
            return
        self.world.clock.advance(SETTLED_SECONDS)
        while self.climb(client, limit):
            pass
        assert not {key for key in client.owed if self.is_shown(user, key)}
        client.owed.clear()
        idle = self.ask(user, limit=str(limit), after=client.previous)
        assert idle["entries"] == []
        assert idle["previous"] == client.previous
        assert "more" not in idle

    def climb(self, client: Client, limit: int) -> bool:
        """One page upwards; returns whether there is more."""
        now_ms, before = self.world.clock.now_ms(), place(client.previous)
        page = self.ask(client.user, limit=str(limit), after=client.previous)
        client.previous = page["previous"]
        after = place(client.previous)
        assert after.position >= before.position
        assert after.low >= before.low
        hashes = Counter(map(hashed, self.keys(client.user, left_out=True)))
        for key in map(key_of, page["entries"]):
            # Two keys of one hash may be shown again.
            assert key not in client.shown or hashes[hashed(key)] > 1
            client.shown.append(key)
            client.owed.pop(key, None)
        for key, landed_ms in list(client.owed.items()):
            # An eventual read may have missed it, and the low mark passed it.
            if key <= after.low and landed_ms > now_ms - 1000 * SETTLED_SECONDS:
                del client.owed[key]
        return "more" in page

    @rule(user=readers, limit=limits, is_up=st.booleans(), part=st.booleans(), data=st.data())
    def read_whole(
        self, user: str, limit: int, is_up: bool, part: bool, data: st.DataObject
    ) -> None:
        """All pages together are the timeline, or a part of it."""
        self.world.clock.advance(SETTLED_SECONDS)
        wanted = self.keys(user)
        bounds: dict[str, str] = {}
        if part and wanted:
            ends = sorted(data.draw(st.sampled_from(wanted)).partition("#")[0] for _ in range(2))
            bounds = {"from": ends[0], "to": ends[1]}
            wanted = [key for key in wanted if ends[0] <= key < ends[1]]
        query = {"limit": str(limit), **bounds}
        if is_up:
            start = bounds.get("from", "2020-01-01")
            query["after"] = self.ask(user, **{"from": start, "to": start})["previous"]
        found: list[list[str]] = []
        while True:
            page = self.ask(user, **query)
            found.append([key_of(entry) for entry in page["entries"]])
            for entry in page["entries"]:
                assert entry["body"] == self.posts[entry["ref_id"]].body
            if is_up:
                query["after"] = page["previous"]
                if "more" not in page:
                    break
            elif page["next"] is None:
                break
            else:
                query["before"] = page["next"]
        pages = reversed(found) if is_up else found
        assert [key for page in pages for key in page] == wanted


Timelines.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_pages_together_are_the_timeline = Timelines.TestCase

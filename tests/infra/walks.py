"""What the functions call, recorded while a simulated world runs them by either transport."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from fanfold import clock, contract, names
from fanfold.aws.items import text
from fanfold.channels.head import HEAD
from fanfold.errors import PostRetracted, TooManyRequests, TryLater
from fanfold.follows.relation import PRIVACY
from fanfold.follows.sharding import HOT_KEY_RANGE
from fanfold.ids import ref_id_for, sort_key
from proof.model import errors
from proof.model.dynamodb.capacity import PROVISIONED, Reason, throttled
from proof.model.iam import LEADING_KEYS, SOURCE_FUNCTION, Need, arn, needs
from proof.simulation.clients.requests import call, send
from proof.simulation.kinds.undisturbed import calm
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.stage import stores
from proof.simulation.world import aws_clients
from proof.simulation.world.aws_clients import running, tables_of
from proof.simulation.world.lambdas import BY_HAND, installed, queue_url
from proof.simulation.world.world import World

Record = dict[str, set[Need]]

SEED = 1
ANOTHER = "another row"  # of whatever table
PUBLISHER, SMALL, READER = "celebrity", "singer", "reader"
# In the simulation, a segment has 4 followers: a few segments, and one.
FOLLOWERS = {PUBLISHER: 14, SMALL: 4}
# Until all that was sent has been done, and what SWEEP asks for again.
A_WHILE, LONG = 120.0, 4_000.0
# Longer than a container waits before it grows a publisher, which is short in the simulation.
SOON = 2.0
HOUR = 3_600.0
FUNCTION_ARN = arn("lambda", "function:f")
# Of requests of one user within a second or two; some are over the rate.
AT_MOST = 200
# So many posts, at whose calls answers are lost, that each kind of call is repeated.
MANY, LOST = 12, 0.25


@contextmanager
def recording() -> Iterator[Record]:
    """Record what the calls of each function need, by its module; also of calls that fail."""
    record: Record = {}
    plain = aws_clients.call

    def call(service: str, operation: str, request: dict[str, Any]) -> Any:
        if module := _module():  # else a check or an operator calls
            needed = needs(service, operation, request)
            record.setdefault(module, set()).update(map(_abridged, needed))
        return plain(service, operation, request)

    with patch.object(aws_clients, "call", call):
        yield record


def _abridged(need: Need) -> Need:
    """A need of code, with one name for all rows that have no rights of their own."""
    context = dict(need.context)
    if (key := context.get(LEADING_KEYS, (HEAD,))[0]) != HEAD:
        context[LEADING_KEYS] = (f"a{PRIVACY}" if key.endswith(PRIVACY) else ANOTHER,)
    context[SOURCE_FUNCTION] = (FUNCTION_ARN,)
    return need._replace(context=tuple(context.items()))


def _module() -> str:
    caller = running.world.scheduler.current.environment.partition(" ")[0]
    return str(caller).removeprefix("functions.")


def walk(transport: str) -> Record:
    """Run each function through its paths, once; the record.

    The stage gives channels by hand. Any other one may still have some.
    """
    with installed(), recording() as record:
        world = World(SEED, transport=transport)
        calm(world)
        # A fan-out to more followers goes through the lanes; and one unfollow is more than a
        # reader's row has marks for.
        world.sample_edges, world.max_hidden, world.max_muted = 2, 1, 1
        world.backfill, world.retention_days = 2, 30
        world.channels.stage = ChannelSettings(threshold=BY_HAND)
        world.run(lambda world: world.start_client("walker", lambda: Walk(world).all()))
    return record


@dataclass
class Throttled:
    """Some calls of one function are throttled by their key range while it is on."""

    module: str
    operation: str
    table: names.Table
    left: int = 0  # how many more

    def before(self, _service: str, operation: str, request: dict[str, Any]) -> None:
        is_its = (_module(), operation) == (self.module, self.operation)
        if self.left and is_its and self.table.name in tables_of(request):
            self.left -= 1
            reason = Reason(HOT_KEY_RANGE, f"arn:aws:dynamodb:::table/{self.table.name}")
            refused = throttled([reason], key_range_as=PROVISIONED)
            raise errors.client_error("dynamodb", operation, refused)


@dataclass
class Walk:
    """One client, who asks for everything, one thing after the other."""

    world: World
    answers: dict[str, int] = field(default_factory=dict)

    def all(self) -> None:
        for step in (
            self.follow, self.publish, self.approve, self.use_every_route, self.send_every_message,
            self.grow, self.hand_back, self.lose_answers, self.reject,
            self.lose_orders, self.hurry, self.misgroup, self.share, self.look_again,
        ):  # fmt: skip
            step()
        assert self.answers.keys() == {route.key for route in contract.ROUTES}

    def follow(self) -> None:
        for publisher, count in FOLLOWERS.items():
            for number in range(count):
                self.ask(contract.FOLLOW, f"u{number}", publisher_id=publisher)
        for publisher in (*FOLLOWERS, "other", "another"):
            self.ask(contract.FOLLOW, READER, publisher_id=publisher)
        self.wait()

    def publish(self) -> None:
        for publisher in (*FOLLOWERS, "other", "another", "nobody-follows"):
            for key in ("a", "b"):
                self.post(publisher, key)
        self.wait()

    def approve(self) -> None:
        """A private publisher decides, over HTTP and by the queue, and goes public again."""
        choose, private = contract.CHOOSE_PRIVACY, "private"
        self.ask(choose, private, body={"private": True})
        for user in ("asks-1", "asks-2", "asks-3", "asks-4"):
            self.ask(contract.FOLLOW, user, publisher_id=private)
        self.send(contract.FOLLOW_ADDED, user_id="asks-5", publisher_id=private)
        self.wait()
        self.ask(contract.LIST_REQUESTS, private)
        self.ask(contract.SHOW_FOLLOWING, "asks-1", publisher_id=private)
        self.ask(contract.APPROVE, private, user_id="asks-1")
        self.ask(contract.REMOVE, private, user_id="asks-2")
        self.ask(contract.READ_FEED, "asks-1", publisher_id=private)
        self.ask(contract.READ_FEED, "a-stranger", publisher_id=SMALL)
        relation = {"user_id": "asks-5", "publisher_id": private}
        for kind in (contract.FOLLOWER_APPROVED, contract.FOLLOWER_REMOVED):
            self.send(kind, **relation)
            self.wait()
        self.send(contract.FOLLOW_ADDED, **relation, approved=True)
        self.wait()
        for kind in (contract.USER_BLOCKED, contract.USER_UNBLOCKED):
            self.send(kind, **relation)
            self.wait()
        self.ask(contract.BLOCK, private, user_id="asks-3")
        self.ask(contract.LIST_BLOCKED, private)
        self.ask(contract.UNBLOCK, private, user_id="asks-3")
        self.ask(choose, private, body={"private": False})
        self.wait()

    def use_every_route(self) -> None:
        """Each route at least once, with content to answer with."""
        post: Any = {"ref_id": ref_id_for(PUBLISHER, "a")}
        for _ in range(2):  # the second time for a lost answer
            self.post(PUBLISHER, "again")
        self.ask(contract.EDIT_POST, PUBLISHER, body={"body": {"title": "Edited"}}, **post)
        ids = {"publisher_id": PUBLISHER, **post}
        for route in (each for each in contract.ROUTES if each.method == "GET"):
            path = {name: ids[name] for name in ids if f"{{{name}}}" in route.path}
            is_own = path and route != contract.SHOW_FOLLOWING
            self.ask(route, PUBLISHER if is_own else READER, **path)
        entry = self.ask(contract.READ_TIMELINE, READER)["entries"][0]
        place = {each: entry[each] for each in ("published_at", "ref_id")}
        self.ask(contract.READ_TIMELINE, READER, query={"hydrate": "false", "limit": "1"})
        self.ask(contract.MOVE_MARKER, READER, body=place)
        self.ask(contract.READ_MARKER, READER)
        self.ask(contract.MUTE, READER, publisher_id="other")
        self.ask(contract.UNMUTE, READER, publisher_id="other")
        for publisher in ("other", "another", PUBLISHER):
            self.ask(contract.UNFOLLOW, READER, publisher_id=publisher)
        self.ask(contract.READ_TIMELINE, READER)
        self.ask(contract.RETRACT_POST, PUBLISHER, **post)
        self.wait()

    def send_every_message(self) -> None:
        post = {"publisher_id": SMALL, "ref_id": "sent"}
        # An edit before its post comes again.
        self.send(contract.POST_UPDATED, **post, body={"title": "Edited"})
        self.wait()
        for _ in range(2):  # the second time its row is there, and the post is read
            self.send(contract.POST_PUBLISHED, **post)
            self.wait()
        self.send(contract.POST_DELETED, **post)
        relation = {"user_id": "by-queue", "publisher_id": SMALL}
        self.send(contract.FOLLOW_ADDED, **relation)
        self.wait()
        self.send(contract.FOLLOW_REMOVED, **relation)
        self.wait()
        # A retraction that comes before its publish, which leaves a void row.
        self.send(contract.POST_DELETED, publisher_id=SMALL, ref_id=ref_id_for(SMALL, "early"))
        self.wait()
        body, headers = {"body": {"title": "early"}}, {"idempotency-key": "early"}
        status, _ = call(self.world, SMALL, contract.PUBLISH_POST, headers=headers, body=body)
        assert status == PostRetracted.status

    def grow(self) -> None:
        """Whoever writes edges meets a hot shard, and gives its publisher more of them."""
        for number in range(3):
            user = f"rushing-{number}"
            with self.throttled("api", "put_item"):
                self.ask(contract.FOLLOW, user, publisher_id="hot-api")
            with self.throttled("plan", "put_item"):
                self.send(contract.FOLLOW_ADDED, user_id=user, publisher_id="hot-plan")
                self.wait(SOON)
        # The door's call fails, and what RELATE was told before is done by RELATE.
        with self.throttled("api", "put_item", times=1_000):
            for number in range(3):
                self.fail(contract.FOLLOW, f"rushing-{number}", publisher_id="hot-relate")
                self.wait(SOON)
        with self.throttled("relate", "put_item", times=6):
            self.wait(LONG)
        with self.throttled("api", "delete_item", times=1_000):
            self.fail(contract.UNFOLLOW, "rushing-0", publisher_id="hot-relate")
        self.wait()

    def hand_back(self) -> None:
        """One timeline is throttled for an hour, and DELIVER sends the rest to its lane again."""
        faults = self.world.faults
        faults.hot, faults.hot_until = frozenset({"u0"}), self.world.clock.monotonic() + HOUR
        faults.rates["hot"] = 1.0
        for publisher in FOLLOWERS:
            self.post(publisher, "hot")
        self.wait(HOUR + A_WHILE)
        faults.rates["hot"] = 0.0

    def lose_answers(self) -> None:
        """Repeated calls find that they were carried out before."""
        self.world.faults.rates["unanswered"] = LOST
        for number in range(MANY):
            for publisher in (*FOLLOWERS, "other"):
                ref_id = f"{publisher}-{number}"
                self.send(contract.POST_PUBLISHED, publisher_id=publisher, ref_id=ref_id)
        self.wait(HOUR)
        self.world.faults.rates["unanswered"] = 0.0

    def reject(self) -> None:
        """A message that breaks the contract, in every queue."""
        for queue in names.QUEUES:
            self.world.sqs.send_message(
                QueueUrl=queue_url(queue), MessageBody="{}", MessageGroupId="other"
            )
        self.wait()

    def lose_orders(self) -> None:
        """What was sent to each queue is lost, and SWEEP sends it again."""
        for lost, publisher in (
            (names.PUBLISH, SMALL),
            (names.EXPRESS, SMALL),
            (names.BULK, PUBLISHER),
        ):
            self.world.triggers.pause({lost.name})
            self.post(publisher, f"lost by {lost.name}")
            self.wait()
            self.world.queues.queue(queue_url(lost)).purge()
            self.world.triggers.resume({lost.name})
        self.wait(LONG)

    def misgroup(self) -> None:
        """Orders are sent again by hand, without their publisher's name."""
        for queue in (names.PUBLISH, names.EXPRESS):
            held, url = self.world.queues.queue(queue_url(queue)), queue_url(queue)
            self.world.triggers.pause({queue.name})
            self.post(SMALL, f"misgrouped on {queue.name}")
            self.wait()
            bodies = [message.body for message in held.messages()]
            assert bodies
            held.purge()
            for body in bodies:
                self.world.sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId="other")
            self.world.triggers.resume({queue.name})
            self.wait()

    def hurry(self) -> None:
        """A publisher publishes faster than it may."""
        for number in range(AT_MOST):
            headers = {"idempotency-key": f"hurried-{number}"}
            status, _ = call(self.world, "hurried", contract.PUBLISH_POST, headers=headers, body={})
            if status == TooManyRequests.status:
                return
        raise AssertionError("nobody was too fast")

    def share(self) -> None:
        """A publisher has a channel, followed before and after; then it is demoted and removed."""
        table: Any = self.world.dynamodb
        heads, publisher = stores(table).heads, "sharer"
        self.ask(contract.FOLLOW, READER, publisher_id=publisher)
        self.send(contract.FOLLOW_ADDED, user_id="by-queue", publisher_id=publisher)
        self.wait()
        assert heads.add(publisher, heads.get(), followers=1)
        self.wait()  # PLAN may know the head of a moment ago
        self.post(publisher, "shared")
        self.wait()
        shown = self.ask(contract.READ_TIMELINE, READER)["entries"]
        assert publisher in [entry["publisher_id"] for entry in shown]
        for reader in ("late-reader", "later-reader"):
            self.ask(contract.FOLLOW, reader, publisher_id=publisher)
            self.ask(contract.READ_TIMELINE, reader)
        self.ask(contract.COUNT_UNREAD, READER)
        self.ask(contract.UNFOLLOW, READER, publisher_id=publisher)
        self.send(contract.FOLLOW_REMOVED, user_id="by-queue", publisher_id=publisher)
        self.wait()
        self.ask(contract.FOLLOW, "late-reader", publisher_id="other")
        assert heads.add("another", heads.get(), followers=1)
        # Its door knows the head of a moment ago, so RELATE notes the channel.
        self.ask(contract.FOLLOW, "late-reader", publisher_id="another")
        self.wait()
        for each in (publisher, "another"):
            assert heads.demote(each, until=clock.now_ms() // 1000)
        self.wait()
        assert heads.get().channels == {}

    def look_again(self) -> None:
        """What a cursor remembers is looked for once more, with a new head, if it is gone."""
        page = self.ask(contract.READ_TIMELINE, READER)
        for gone in page["entries"]:
            place = text(sort_key(gone["published_at"], gone["ref_id"]))
            key = {"user_id": text(READER), "sort_key": place}
            self.world.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)
        self.wait()
        self.ask(contract.READ_TIMELINE, READER, query={"after": page["previous"]})

    # What steps are made of

    def fail(self, route: contract.Route, user: str, **path: str) -> None:
        status, _ = call(self.world, user, route, path=path)
        assert status == TryLater.status, (route.key, status)

    @contextmanager
    def throttled(self, module: str, operation: str, *, times: int = 1) -> Iterator[None]:
        """Inside this context, that many writes of edges by this function are throttled."""
        trouble = Throttled(module, operation, names.FOLLOWERS, times)
        self.world.troubles.append(trouble)  # type: ignore[arg-type]
        yield
        self.world.troubles.remove(trouble)  # type: ignore[arg-type]

    def ask(
        self, route: contract.Route, user: str, *, body: Any = None,
        query: dict[str, str] | None = None, headers: dict[str, str] | None = None, **path: str,
    ) -> Any:  # fmt: skip
        status, answer = call(
            self.world, user, route, path=path, body=body, query=query, headers=headers
        )
        assert status in (route.status, route.also), (route.key, status, answer)
        self.answers[route.key] = status
        return answer

    def post(self, publisher: str, key: str) -> None:
        body, headers = {"body": {"title": key}}, {"idempotency-key": key}
        self.ask(contract.PUBLISH_POST, publisher, body=body, headers=headers)

    def send(self, kind: str, **content: Any) -> None:
        send(self.world, {"version": 1, "type": kind, **content})

    def wait(self, seconds: float = A_WHILE) -> None:
        self.world.scheduler.sleep(seconds)

"""The workload of a run: what its clients do, drawn from the seed and kept as operations."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import contract, names, times
from fanfold.aws import boto
from fanfold.fanout.ledger import Ledger
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.sharding import raised
from fanfold.ids import ref_id_for
from simulation.history import Operation
from simulation.lambdas import MAPPED, lambdas, queue_url
from simulation.neighbours import is_of_neighbours
from simulation.scheduler import Crash
from simulation.wishes import Wish
from simulation.world import World

MAX_POSTS = 3  # of one publisher, but in a crowd

NOISE = (
    "not JSON",
    "[]",
    json.dumps({"version": 99, "type": "post.published"}),
    json.dumps({"version": 1, "type": "post.exploded"}),
    json.dumps({"version": 1, "type": "post.published", "publisher_id": "p0"}),
    json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "unknown"}),
)

# In a crowded run, hot timelines delay each of the many posts: beyond this, nothing else happens.
CROWD_HOT_SECONDS = 30.0
# A crowd mostly comes in waves, so that many environments see the same throttle at the same time.
WAVE_SECONDS = (None, 1.0, 1.0)


def play(world: World) -> None:
    """Start the clients: one to three publishers, up to two dozen users, and some others."""
    random = world.random
    publishers = [f"p{number}" for number in range(random.randint(1, 3))]
    users = [f"u{number}" for number in range(random.randint(1, 24))]
    world.faults.hot = frozenset(random.sample(users, min(len(users), random.choice((1, 1, 2, 4)))))
    for user in users:
        world.start_client(user, partial(_user, world, user, publishers))
    for publisher in publishers:
        world.start_client(publisher, partial(_publisher, world, publisher))
    if random.random() < 0.3:
        world.start_client("rival", partial(_rival, world, publishers[0]))
    if random.random() < 0.3:
        world.start_client("squatter", partial(_squatter, world, publishers))
    if world.is_crowded:
        _crowd(world, users, publishers[0])
    if world.is_hasty:
        for user in ("h0", "h1"):
            world.start_client(user, partial(_hasty, world, user, publishers[0]))
    if random.random() < 0.3:
        world.start_client("noise", partial(_noise, world))
    if random.random() < 0.2:
        world.start_client("operator", partial(_operator, world))
    if world.is_ended_by_hand:
        world.start_client("impatient", partial(_impatient, world))


def _user(world: World, user: str, publishers: list[str]) -> None:
    """Follow most publishers; perhaps follow and unfollow some repeatedly; perhaps read."""
    random = world.random
    for publisher in publishers:
        if random.random() < 0.8:
            relate(world, "follow", user, publisher)
    is_restless = random.random() < 0.3
    for _ in range(random.randint(0, 4) if is_restless else 0):
        world.scheduler.sleep(random.uniform(0, 20))
        relate(world, random.choice(("follow", "unfollow")), user, random.choice(publishers))
    if random.random() < 0.2:
        read(world, user)


def _crowd(world: World, users: list[str], publisher: str) -> None:
    """All users follow and unfollow one publisher, who keeps posting."""
    random = world.random
    world.faults.hot_until = min(world.faults.hot_until, CROWD_HOT_SECONDS)
    wave = random.choice(WAVE_SECONDS)

    def come_and_go(user: str) -> None:
        for _ in range(random.randint(2, 6)):
            pause = random.uniform(0, 6)
            if wave:
                now = world.scheduler.now
                pause = math.ceil((now + pause) / wave) * wave - now
            world.scheduler.sleep(pause)
            act = relate if random.random() < 0.9 else relate_by_queue
            act(world, random.choice(("follow", "follow", "unfollow")), user, publisher)

    def post() -> None:
        for number in range(random.randint(2, 8)):
            world.scheduler.sleep(random.uniform(0, 8))
            by_http(world, publisher, f"{publisher}-crowd-{number}")

    for user in users:
        world.start_client(f"{user} again", partial(come_and_go, user))
    world.start_client(f"{publisher} again", post)
    if random.random() < 0.3:
        world.start_client("shards", partial(_shards, world, publisher))


def _hasty(world: World, user: str, publisher: str) -> None:
    """Follow and unfollow within a fraction of a second, by request and by message."""
    random = world.random
    for _ in range(random.randint(1, 4)):
        world.scheduler.sleep(random.uniform(0, 10))
        for _ in range(random.randint(2, 4)):
            act = random.choice((relate, relate_by_queue))
            act(world, random.choice(("follow", "unfollow")), user, publisher)
            world.scheduler.sleep(random.choice((0.0, random.uniform(0, 0.3))))


def _shards(world: World, publisher: str) -> None:
    """Be an operator who grows a publisher by hand, or changes the static level."""
    random = world.random
    table = PublishersTable(boto.dynamodb(), names.PUBLISHERS.name)
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 20))
        with suppress(ClientError, BotoCoreError):  # the operator does not try again
            if random.random() < 0.3:
                seen = table.shards(publisher)
                level, now_ms = seen.level + random.randint(1, 2), world.scheduler.now_ms()
                grown = raised(seen, level=level, now_ms=now_ms)
                table.update(publisher, seen=seen, shards=grown)
            else:
                table.set_static_level(random.choice((0, 1, 2, 3, None)))


def _publisher(world: World, publisher: str) -> None:
    """Publish a few posts, by HTTP or queue; some twice; retract some, even before publishing."""
    random = world.random
    for number in range(random.randint(1, MAX_POSTS)):
        world.scheduler.sleep(random.uniform(0, 60))
        name = f"{publisher}-{number}"
        (_post_by_http if random.random() < 0.6 else _post_by_queue)(world, publisher, name)


def _post_by_http(world: World, publisher: str, key: str) -> None:
    random, ref_id = world.random, ref_id_for(publisher, key)
    if random.random() < 0.1:
        retract(world, publisher, ref_id)
    for _ in range(random.choice((1, 1, 1, 2))):
        by_http(world, publisher, key)
    if random.random() < 0.15:
        world.scheduler.sleep(random.uniform(0, 10))
        retract(world, publisher, ref_id)
        if random.random() < 0.5:
            by_http(world, publisher, key)


def _post_by_queue(world: World, publisher: str, ref_id: str) -> None:
    random = world.random
    if random.random() < 0.15:
        retract_by_queue(world, publisher, ref_id)
        world.scheduler.sleep(random.uniform(0, 2))
    for _ in range(random.choice((1, 1, 1, 2))):
        by_queue(world, publisher, ref_id)
    if random.random() < 0.15:
        world.scheduler.sleep(random.uniform(0, 10))
        random.choice((retract, retract_by_queue))(world, publisher, ref_id)


def _rival(world: World, publisher: str) -> None:
    """Be another device of a publisher, which uses the same keys for other posts."""
    random = world.random
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 30))
        key = f"{publisher}-{random.randrange(MAX_POSTS)}"
        by_http(world, publisher, key, content={"title": "another"})


def _squatter(world: World, publishers: list[str]) -> None:
    """Try to retract posts of others, published or not."""
    random = world.random
    for _ in range(random.randint(1, 6)):
        world.scheduler.sleep(random.uniform(0, 30))
        publisher = random.choice(publishers)
        name = f"{publisher}-{random.randrange(MAX_POSTS)}"
        _squat(world, random.choice((name, ref_id_for(publisher, name))))


def _noise(world: World) -> None:
    for body in world.random.sample(NOISE, 3):
        world.scheduler.sleep(world.random.uniform(0, 30))
        world.noise.add(body)
        _send(world, body)


def _operator(world: World) -> None:
    """Pause some queues, perhaps for longer than SWEEP waits for a segment."""
    random = world.random
    world.scheduler.sleep(random.uniform(0, 60))
    queues = random.sample([queue.name for queue in MAPPED], random.randint(1, 3))
    world.triggers.pause(set(queues))
    world.note(f"paused: {queues}")
    world.scheduler.sleep(random.uniform(10, 2 * 60 * 60))
    world.triggers.resume()
    world.note("resumed")


def _impatient(world: World) -> None:
    """Be an operator who abandons deliveries that are under way, at any moment of their work."""
    ledger = Ledger(boto.dynamodb(), names.FANOUTS.name)
    for _ in range(40):
        world.scheduler.sleep(world.ended_by_hand.uniform(0, 3))
        with suppress(ClientError, BotoCoreError):  # the operator does not try again
            if ids := sorted(each for each in ledger.open_ids() if not is_of_neighbours(each)):
                ref_id = world.ended_by_hand.choice(ids)
                world.abandoned.setdefault(ref_id, False)  # perhaps: the answer may be lost
                if ledger.abandon(ref_id, now=times.to_text(world.clock.now_ms())):
                    world.abandoned[ref_id] = True


def relate(world: World, kind: str, user: str, publisher: str) -> Operation:
    """Follow or unfollow by HTTP."""
    route = contract.FOLLOW if kind == "follow" else contract.UNFOLLOW

    def is_acknowledged(_operation: Operation) -> bool:
        wish = Wish(kind == "follow", world.clock.now_ms())
        world.history.wishes[user, publisher].append(wish)
        answer = _call(world, user, route, path={"publisher_id": publisher}, clock=world.door_ms())
        wish.ended, wish.is_due = world.clock.now_ms(), answer[0] in (200, 204)
        return wish.is_due

    return _operate(world, kind, user, publisher, is_acknowledged)


def relate_by_queue(world: World, kind: str, user: str, publisher: str) -> None:
    """Follow or unfollow by a queue message, which nobody acknowledges."""
    type_ = contract.FOLLOW_ADDED if kind == "follow" else contract.FOLLOW_REMOVED
    begun = _begin(world, kind, user, publisher)
    wish = Wish(kind == "follow", begun.begun_ms, is_message=True)
    world.history.wishes[user, publisher].append(wish)
    _send(world, {"version": 1, "type": type_, "user_id": user, "publisher_id": publisher})


def by_http(world: World, publisher: str, key: str, *, content: Any = None) -> Operation:
    """Publish by HTTP; 410, for a post retracted before, and 422 are answers too."""
    content = content or {"title": key}

    def is_acknowledged(operation: Operation) -> bool:
        operation.content = content
        headers = {"idempotency-key": key}
        operation.status, answer = _call(
            world, publisher, contract.PUBLISH_POST, headers=headers, body={"body": content}
        )
        operation.answer = answer if operation.status == 202 else None
        return operation.status in (202, 410, 422)

    return _operate(world, "publish", publisher, ref_id_for(publisher, key), is_acknowledged)


def by_queue(world: World, publisher: str, ref_id: str) -> Operation:
    """Publish by a queue message, which is accepted as soon as SQS has it."""

    def is_acknowledged(_operation: Operation) -> bool:
        post = {"publisher_id": publisher, "ref_id": ref_id, "body": {"title": ref_id}}
        _send(world, {"version": 1, "type": contract.POST_PUBLISHED, **post})
        return True

    return _operate(world, "send", publisher, ref_id, is_acknowledged)


def retract(world: World, publisher: str, ref_id: str) -> Operation:
    """Retract one's own post by HTTP; 404, for a post that is not published, is an answer too."""
    return _delete(world, "retract", publisher, ref_id)


def _squat(world: World, ref_id: str) -> Operation:
    """Try to retract somebody else's post by HTTP."""
    return _delete(world, "squat", "squatter", ref_id)


def _delete(world: World, kind: str, user: str, ref_id: str) -> Operation:
    def is_acknowledged(operation: Operation) -> bool:
        path = {"ref_id": ref_id}
        operation.status, _ = _call(world, user, contract.RETRACT_POST, path=path)
        return operation.status in (204, 404)

    return _operate(world, kind, user, ref_id, is_acknowledged)


def retract_by_queue(world: World, publisher: str, ref_id: str) -> None:
    """Retract a post by a queue message, perhaps before it is published."""
    _begin(world, "unsend", publisher, ref_id)
    post = {"publisher_id": publisher, "ref_id": ref_id}
    _send(world, {"version": 1, "type": contract.POST_DELETED, **post})


def read(world: World, user: str, *, limit: int = 2) -> list[str]:
    """Read a timeline page by page; returns the `ref_id` of each post shown, in order."""
    shown: list[str] = []
    query = {"limit": str(limit)}
    while True:
        status, page = _call(world, user, contract.READ_TIMELINE, query=query)
        if status != 200:
            return shown
        shown += [entry["ref_id"] for entry in page["entries"]]
        if page["next"] is None:
            return shown
        query["before"] = page["next"]


def _begin(world: World, kind: str, user: str, subject: str) -> Operation:
    begun = Operation(kind, user, subject, world.scheduler.turns, world.clock.now_ms())
    world.history.operations.append(begun)
    return begun


def _operate(
    world: World, kind: str, user: str, subject: str, is_acknowledged: Callable[[Operation], bool]
) -> Operation:
    """Try until acknowledged, or give up; the operation may have its effect all the same."""
    operation = _begin(world, kind, user, subject)
    for _ in range(world.random.choice((1, 3, 6))):
        if is_acknowledged(operation):
            operation.ended, operation.ended_ms = world.scheduler.turns, world.clock.now_ms()
            world.note(f"acknowledged: {kind} {user} {subject}")
            return operation
        world.scheduler.sleep(world.random.uniform(0, 2))
    world.note(f"given up: {kind} {user} {subject}")
    return operation


def _call(
    world: World,
    user: str,
    route: contract.Route,
    *,
    headers: dict[str, str] | None = None,
    path: dict[str, str] | None = None,
    body: Any = None,
    query: dict[str, str] | None = None,
    clock: int | None = None,
) -> tuple[int, Any]:
    """Invoke a route's function as API Gateway does; 502 if its process dies."""
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": route.key,
        "headers": headers or {},
        "pathParameters": path or {},
        "queryStringParameters": query or {},
        "requestContext": {
            "authorizer": {"jwt": {"claims": {"sub": user}}},
            "requestId": "simulated",
            "timeEpoch": world.clock.now_ms() if clock is None else clock,
        },
        "body": None if body is None else json.dumps(body),
        "isBase64Encoded": False,
    }
    try:
        answer = lambdas().invoke(route.door, event, seconds=names.API.seconds)
    except Crash:
        world.faults.injected["door died"] += 1
        return 502, None
    content = json.loads(answer["body"]) if answer.get("body") else None
    return answer["statusCode"], content


def _send(world: World, content: Any) -> None:
    """Send a message to the publish queue, as another service does."""
    body = content if isinstance(content, str) else json.dumps(content)
    world.sqs.send_message(
        QueueUrl=queue_url(names.PUBLISH), MessageBody=body, MessageGroupId="other"
    )

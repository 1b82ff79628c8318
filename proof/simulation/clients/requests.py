"""The requests of a run's clients; each is an operation of its history."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from fanfold import contract, cursor, names
from fanfold.errors import TooManyRequests
from fanfold.ids import ref_id_for
from proof.simulation.clients.edits import Edit
from proof.simulation.clients.history import Operation, Page, Pair, PostRead, RetractAttempt
from proof.simulation.clients.readers import FOLLOWING, Listing
from proof.simulation.clients.spans import Span
from proof.simulation.oracle.follows import FOLLOWED, RELATIONS, REQUESTED, SHUTS, Asked, Verb
from proof.simulation.world.lambdas import lambdas, queue_url
from proof.simulation.world.scheduler import Crash
from proof.simulation.world.world import World

NO_ANSWER = 0  # the status of a request that its client abandoned
WHOLE = (200, 202, 204)  # all was done
# What the answer to a follow says of the relation.
SAID = {200: FOLLOWED, 202: REQUESTED, 409: frozenset(each for each in RELATIONS if each & SHUTS)}


def relate(world: World, kind: str, user: str, publisher: str) -> Operation:
    """Follow, or ask to, or unfollow by HTTP."""
    route, verb = contract.UNFOLLOW, Verb.UNFOLLOW
    if kind == "follow":
        route, verb = contract.FOLLOW, Verb.FOLLOW
    pair, path = (user, publisher), {"publisher_id": publisher}

    def is_acknowledged(operation: Operation) -> bool:
        operation.status, _, (request,) = ask(world, [(pair, verb)], user, route, path)
        if kind == "follow" and operation.status in SAID:
            said = pair, request, SAID[operation.status]
            world.history.audience.answers.append(said)
        return request.is_due

    return operate(world, kind, user, publisher, is_acknowledged)


def ask(
    world: World,
    asked: list[tuple[Pair, Verb]],
    user: str,
    route: contract.Route,
    path: dict[str, str],
) -> tuple[int, Any, list[Asked]]:
    """Ask once for something of one relation or two; returns the answer, and what was asked."""
    history, now_ms = world.history, world.clock.now_ms()
    tried = [(history.relations[pair], Asked.of(verb, now_ms)) for pair, verb in asked]
    for relation, request in tried:
        relation.requests.append(request)

    def ended(status: int) -> None:
        is_whole = status in WHOLE
        ended_ms: float = world.clock.now_ms()
        if not is_whole:  # abandoned writes may still land
            ended_ms = max(ended_ms, world.scheduler.current.lands_ms)
        for relation, request in tried:
            relation.ends(request, ended_ms, Span(request.begun) if is_whole else None)

    clock = world.door_ms()
    status, answer = call(world, user, route, path=path, clock=clock, ended=ended)
    for _, request in tried:
        request.is_due = status in WHOLE
    return status, answer, [request for _, request in tried]


def relate_by_queue(world: World, kind: str, user: str, publisher: str) -> None:
    """Follow or unfollow by a queue message, which nobody acknowledges."""
    type_ = contract.FOLLOW_ADDED if kind == "follow" else contract.FOLLOW_REMOVED
    ask_by_queue(world, kind, type_, user, publisher)


def ask_by_queue(
    world: World,
    kind: str,
    type_: str,
    user: str,
    publisher: str,
    *,
    first_sent_ms: int | None = None,
    **more: object,
) -> None:
    """Ask for something of a relation by a message, perhaps one that is redriven."""
    _begin(world, kind, user, publisher)
    content = {"version": 1, "type": type_, "user_id": user, "publisher_id": publisher, **more}
    send(world, content, first_sent_ms=first_sent_ms)


def by_http(
    world: World,
    publisher: str,
    key: str,
    *,
    content: Any = None,
    is_patient: bool = False,
    **more: Any,
) -> Operation:
    """Publish by HTTP; 410, for a post retracted before, and 422 are answers too."""
    content = content or {"title": key}

    def is_acknowledged(operation: Operation) -> bool:
        operation.content = content
        headers = {"idempotency-key": key}
        span = Span(world.clock.now_ms())
        operation.tries.append(span)

        def ended(_status: int) -> None:
            span.ended_ms = world.clock.now_ms()

        operation.status, answer = call(
            world,
            publisher,
            contract.PUBLISH_POST,
            headers=headers,
            body={"body": content, **more},
            clock=world.door_ms(),
            ended=None if is_patient else ended,
        )
        if is_patient:
            ended(operation.status)
        operation.answer = answer if operation.status == 202 else None
        return operation.status in (202, 410, 422)

    return operate(world, "publish", publisher, ref_id_for(publisher, key), is_acknowledged)


def by_queue(world: World, publisher: str, ref_id: str, **more: Any) -> Operation:
    """Publish by a queue message, which is accepted as soon as SQS has it."""
    if "published_at" in more:
        world.history.given_times[ref_id] = more["published_at"]

    def is_acknowledged(operation: Operation) -> bool:
        operation.content = body = {"title": ref_id}
        post = {"publisher_id": publisher, "ref_id": ref_id, "body": body, **more}
        operation.tries.append(Span(world.clock.now_ms()))
        send(world, {"version": 1, "type": contract.POST_PUBLISHED, **post})
        operation.tries[-1].ended_ms = world.clock.now_ms()
        return True

    return operate(world, "send", publisher, ref_id, is_acknowledged)


def retract(world: World, publisher: str, ref_id: str) -> Operation:
    """Retract one's own post by HTTP; 404, for a post that is not published, is an answer too."""
    return _delete(world, "retract", publisher, ref_id, is_patient=False)


def squat(world: World, ref_id: str) -> Operation:
    """Try to retract somebody else's post by HTTP."""
    return _delete(world, "squat", "squatter", ref_id, is_patient=True)


def _delete(world: World, kind: str, user: str, ref_id: str, *, is_patient: bool) -> Operation:
    def is_acknowledged(operation: Operation) -> bool:
        attempt = RetractAttempt(world.clock.now_ms())
        operation.attempts.append(attempt)

        def ended(status: int) -> None:
            is_over = world.scheduler.current.lands_ms <= world.clock.now_ms()
            attempt.status, attempt.is_over = status, is_over

        operation.status, _ = call(
            world,
            user,
            contract.RETRACT_POST,
            path={"ref_id": ref_id},
            clock=world.door_ms(),
            ended=None if is_patient else ended,
        )
        return operation.status in (204, 404)

    return operate(world, kind, user, ref_id, is_acknowledged)


def retract_by_queue(world: World, publisher: str, ref_id: str) -> None:
    """Retract a post by a queue message, perhaps before it is published."""
    _begin(world, "unsend", publisher, ref_id)
    post = {"publisher_id": publisher, "ref_id": ref_id}
    send(world, {"version": 1, "type": contract.POST_DELETED, **post})


def edit(world: World, user: str, ref_id: str, content: Any) -> Operation:
    """Edit a post by HTTP; not found, overtaken or retracted are answers, too.

    Each attempt says how long ago the first one was, and is the same edit.
    """
    stamp = world.door_ms()

    def is_acknowledged(operation: Operation) -> bool:
        now_ms, turn = world.door_ms(), world.scheduler.turns
        tried = world.history.edits.add(Edit(user, ref_id, content, stamp, begun=turn))
        path, body = {"ref_id": ref_id}, {"body": content}
        headers = {contract.REQUEST_AGE: str(now_ms - stamp)}
        operation.status, operation.answer = call(
            world, user, contract.EDIT_POST, headers=headers, path=path, body=body, clock=now_ms
        )
        turn, now_ms = world.scheduler.turns, world.clock.now_ms()
        lands_ms = world.scheduler.current.lands_ms
        tried.answered(operation.status, turn=turn, now_ms=now_ms, lands_ms=lands_ms)
        return operation.status in (200, 404, 409, 410)

    return operate(world, "edit", user, ref_id, is_acknowledged)


def edit_by_queue(world: World, publisher: str, ref_id: str, content: Any) -> None:
    """Edit a post by a queue message, perhaps before it is published."""
    post = {"publisher_id": publisher, "ref_id": ref_id, "body": content}
    send(world, {"version": 1, "type": contract.POST_UPDATED, **post})


def show(world: World, user: str, ref_id: str) -> None:
    """Read one post."""
    begun_ms = world.clock.now_ms()
    code, post = call(world, user, contract.READ_POST, path={"ref_id": ref_id})
    if code in (200, 404):
        shown = post if code == 200 else None
        world.history.post_reads.append(PostRead(user, ref_id, begun_ms, shown))


def read_feed(world: World, user: str, publisher: str, *, limit: int) -> None:
    """Read a publisher's own posts page by page."""
    path = {"publisher_id": publisher}
    pages = pages_of(world, user, contract.READ_FEED, "entries", "before", limit, path=path)
    world.history.feeds.append([_page(publisher, each) for each in pages])


def read(world: World, user: str, *, limit: int = 2, hydrate: bool = True) -> list[dict[str, Any]]:
    """Read a timeline page by page; returns the entries that are shown, in order."""
    more = {} if hydrate else {"hydrate": "false"}
    pages = pages_of(world, user, contract.READ_TIMELINE, "entries", "before", limit, more=more)
    if not hydrate:
        world.history.readers.ids.append([_page(user, each) for each in pages])
        return [entry for each in pages for entry in each.lines]
    world.history.readings.append([_page(user, each) for each in pages])
    return [entry for each in pages for entry in each.lines]


def page_of(world: World, user: str, *, limit: int, after: str | None) -> dict[str, Any] | None:
    """A page of a timeline: the newest, or upwards from a cursor; None without an answer."""
    query = {"limit": str(limit), **({"after": after} if after else {})}
    begun_ms = world.clock.now_ms()
    status, page = call(world, user, contract.READ_TIMELINE, query=query)
    if status != 200:
        return None
    ended_ms = world.clock.now_ms()
    world.history.readings.append([Page(user, begun_ms, page["entries"], ended_ms=ended_ms)])
    found: dict[str, Any] = page
    return found


def following(world: World, user: str, *, limit: int) -> dict[str, str]:
    """List page by page whom a user follows, in order, and since when."""
    pages = pages_of(world, user, contract.LIST_FOLLOWING, "following", "cursor", limit)
    note_listing(world, user, FOLLOWING, pages)
    return {line["publisher_id"]: line["followed_at"] for each in pages for line in each.lines}


def followers(world: World, publisher: str) -> tuple[list[str], dict[str, Any] | None]:
    """List a publisher's followers in pages of two, and count them, as that publisher."""
    path = {"publisher_id": publisher}
    pages = pages_of(world, publisher, contract.LIST_FOLLOWERS, "followers", "cursor", 2, path=path)
    _, count = call(world, publisher, contract.COUNT_FOLLOWERS, path=path)
    return [line["user_id"] for each in pages for line in each.lines], count


def note_listing(world: World, user: str, name: str, pages: list[AnsweredPage]) -> None:
    """Note a list that was read completely."""
    if pages and pages[-1].next is None:
        found = frozenset(line["publisher_id"] for each in pages for line in each.lines)
        last = pages[-1]
        listing = Listing(user, name, pages[0].begun_ms, last.ended_ms, found, last.total)
        world.history.readers.listings.append(listing)


class AnsweredPage(NamedTuple):
    """One answered page of several."""

    begun_ms: int
    ended_ms: int
    lines: list[dict[str, Any]]
    before: str | None  # the cursor of its request
    next: str | None
    is_short: bool  # it ends too early
    total: int  # on all pages, as this one says


def _page(user: str, page: AnsweredPage) -> Page:
    """A page of entries, with the range of sort keys that it covers."""
    lowest, first = _key(page.next, ""), _key(page.before, "~")  # behind all times
    return Page(user, page.begun_ms, page.lines, page.is_short, page.ended_ms, (lowest, first))


def _key(text: str | None, default: str) -> str:
    return default if text is None else cursor.decode(text, is_position=bool).position


def pages_of(
    world: World,
    user: str,
    route: contract.Route,
    name: str,
    place: str,
    limit: int,
    *,
    path: dict[str, str] | None = None,
    more: dict[str, str] | None = None,
) -> list[AnsweredPage]:
    """All pages, up to the last or to one without an answer."""
    found: list[AnsweredPage] = []
    query = {"limit": str(limit), **(more or {})}
    while True:
        begun_ms = world.clock.now_ms()
        status, page = call(world, user, route, query=query, path=path)
        if status != 200:
            return found
        lines, next_, ended_ms = page[name], page["next"], world.clock.now_ms()
        is_short = next_ is not None and len(lines) < limit
        total = page.get("count", 0)
        found.append(
            AnsweredPage(begun_ms, ended_ms, lines, query.get(place), next_, is_short, total)
        )
        if next_ is None:
            return found
        query[place] = next_


def status(world: World, publisher: str, ref_id: str) -> dict[str, Any] | None:
    """The status of a delivery, as its publisher is told; None if the post is unknown."""
    code, answer = call(world, publisher, contract.SHOW_DELIVERY, path={"ref_id": ref_id})
    return answer if code == 200 else None


def _begin(world: World, kind: str, user: str, subject: str) -> Operation:
    begun = Operation(kind, user, subject, world.scheduler.turns, world.clock.now_ms())
    world.history.add(begun)
    return begun


def operate(
    world: World, kind: str, user: str, subject: str, is_acknowledged: Callable[[Operation], bool]
) -> Operation:
    """Try until acknowledged, or give up; the operation may still take effect."""
    operation = _begin(world, kind, user, subject)
    for _ in range(world.random.choice((1, 3, 6))):
        if is_acknowledged(operation):
            operation.ended, operation.ended_ms = world.scheduler.turns, world.clock.now_ms()
            world.note(f"acknowledged: {kind} {user} {subject}")
            return operation
        if 400 <= operation.status < 500 and operation.status != TooManyRequests.status:
            break  # refused, so it is not repeated
        world.scheduler.sleep(world.random.uniform(0, 2))
    world.note(f"given up: {kind} {user} {subject}")
    return operation


def call(
    world: World,
    user: str,
    route: contract.Route,
    *,
    headers: dict[str, str] | None = None,
    path: dict[str, str] | None = None,
    body: Any = None,
    query: dict[str, str] | None = None,
    clock: int | None = None,
    ended: Callable[[int], None] | None = None,
) -> tuple[int, Any]:
    """Invoke a route's function as API Gateway does; 502 if its process dies.

    With `ended`, which gets the real status at the end of the invocation, the client may abandon
    the request before: then it has no answer, which is status 0.
    """
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
    if ended is None:
        return _invoke(world, route, event)
    impatience = world.faults.impatience()
    if impatience is None:
        answer = _invoke(world, route, event)
        ended(answer[0])
        return answer
    patience, cold_start = impatience
    answers: list[tuple[int, Any]] = []

    def invoke_late() -> None:
        world.scheduler.sleep(cold_start)
        answers.append(_invoke(world, route, event))
        ended(answers[0][0])

    world.scheduler.start(invoke_late, f"{route.key} of {user}")
    world.scheduler.sleep(patience)
    return answers[0] if answers else (NO_ANSWER, None)


def _invoke(world: World, route: contract.Route, event: dict[str, Any]) -> tuple[int, Any]:
    try:
        answer = lambdas().invoke(route.door, event, seconds=names.API.seconds)
    except Crash:
        world.faults.injected["door died"] += 1
        answer = {"statusCode": 502}
    status: int = answer["statusCode"]
    world.history.answers[route.key, status] += 1
    if world.watch:
        world.watch.answered(status)
    return status, json.loads(answer["body"]) if answer.get("body") else None


def send(world: World, content: Any, *, first_sent_ms: int | None = None) -> None:
    """Send a message to the publish queue, as another service does, or a redrive."""
    body = content if isinstance(content, str) else json.dumps(content)
    about: dict[str, Any] = {}
    if first_sent_ms is not None:
        first = {"DataType": "String", "StringValue": str(first_sent_ms)}
        about = {"MessageAttributes": {contract.FIRST_SENT_AT: first}}
    world.sqs.send_message(
        QueueUrl=queue_url(names.PUBLISH), MessageBody=body, MessageGroupId="other", **about
    )

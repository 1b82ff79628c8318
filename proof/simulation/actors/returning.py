"""Clients of a long world: publishers reuse ids, users repeat requests, operators break things."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import contract, names, times
from fanfold.aws import boto
from fanfold.aws.queues import WorkQueue
from fanfold.errors import Unsent
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.row import STALLED
from fanfold.messages import MAX_FIRST_SENT_MS, PlanFanout
from proof.simulation.clients import reader_requests, requests
from proof.simulation.oracle.ids import DAY, Between, IdAttempt, WantedPost, body_of
from proof.simulation.stage import stores
from proof.simulation.world.lambdas import MAPPED, queue_url
from proof.simulation.world.long_world import LongWorld, Pair

HOUR_MS = 60 * 60 * 1_000
# How many days the orders of a fan-out are lost. SWEEP tries for nine days before it gives up.
LOST_DAYS = (0.1, 2.0, 12.0, 12.0, 20.0)
# How many days a post's row is lost. Ten rounds take about five days.
ROBBED_DAYS = (1.0, 7.0, 7.0)
PAUSED_DAYS = (0.5, 3.0, 8.0, 16.0)


# Publishers


def want(world: LongWorld, publisher: str, title: str) -> WantedPost:
    """A post, perhaps with a time in the past: up to the retention ago, or a bit more."""
    if world.drawn.random() < 0.75:
        return WantedPost(publisher, title)
    ago = world.drawn.uniform(0, 1.05) * world.retention_days * DAY
    at_ms = world.clock.now_ms() - int(ago)
    return WantedPost(publisher, title, times.to_text(at_ms))


def publish(world: LongWorld, wanted: WantedPost, key: str) -> None:
    """Publish over HTTP."""
    begun = world.clock.now_ms()
    more = _times_of(wanted)
    # What it had given up could be stored anew, at its own time, once an accident took the post.
    done = requests.by_http(
        world, wanted.publisher, key, content=body_of(wanted), is_patient=True, **more
    )
    judged = Between(begun, world.clock.now_ms())
    attempt = IdAttempt("publish", wanted.publisher, done.subject, judged, wanted=wanted)
    attempt.status = done.status
    if done.answer:
        attempt.times = done.answer["published_at"], done.answer["accepted_at"]
    world.attempts.append(attempt)


def publish_by_queue(world: LongWorld, wanted: WantedPost, ref_id: str) -> None:
    """Publish by a message, perhaps one that was sent days ago and is redriven."""
    now, first = world.clock.now_ms(), None
    if world.drawn.random() < 0.15:
        first = now - int(world.drawn.uniform(0, 0.95) * world.retention_days * DAY)
        first = max(first, now - MAX_FIRST_SENT_MS + HOUR_MS)
    post = {"publisher_id": wanted.publisher, "ref_id": ref_id, "body": body_of(wanted)}
    content = {"version": 1, "type": contract.POST_PUBLISHED, **post, **_times_of(wanted)}
    requests.send(world, content, first_sent_ms=first)
    # The queue's time, which may be rounded up or down, or the given time.
    sent = Between(now - 1, world.clock.now_ms() + 1) if first is None else Between(first, first)
    attempt = IdAttempt("send", wanted.publisher, ref_id, sent, sent=now, wanted=wanted)
    world.attempts.append(attempt)


def _times_of(wanted: WantedPost) -> dict[str, Any]:
    return {} if wanted.published_at is None else {"published_at": wanted.published_at}


def retract(world: LongWorld, publisher: str, ref_id: str, *, by_queue: bool) -> None:
    """Retract a post, perhaps a missing one or somebody else's."""
    begun = world.clock.now_ms()
    if by_queue:
        requests.retract_by_queue(world, publisher, ref_id)
        span = Between(begun, world.clock.now_ms())
        world.attempts.append(IdAttempt("unsend", publisher, ref_id, span, sent=begun))
        return
    done = requests.retract(world, publisher, ref_id)
    span = Between(begun, world.clock.now_ms())
    # An abandoned attempt may take effect after another one was answered.
    is_heard = all(each.status for each in done.attempts)
    status = done.status if is_heard else 0
    world.attempts.append(IdAttempt("retract", publisher, ref_id, span, status=status))


# Users


def ask(world: LongWorld, pair: Pair, kind: str, *, by_queue: bool) -> None:
    """Follow or unfollow."""
    user, publisher = pair
    if by_queue:
        requests.relate_by_queue(world, kind, user, publisher)
        world.requests[pair].append(None)
        return
    place = len(world.requests[pair])
    world.requests[pair].append(None)
    done = requests.relate(world, kind, user, publisher)
    if done.is_acknowledged:
        world.requests[pair][place] = kind == "follow"
        world.granted.append((pair, kind, done.begun_ms))


def mute(world: LongWorld, pair: Pair, kind: str) -> None:
    """Mute or unmute, if there is room."""
    place = len(world.mutes[pair])
    world.mutes[pair].append(None)
    done = reader_requests.mute(world, kind, *pair)
    if done.is_acknowledged and done.status != reader_requests.TOO_MANY:
        world.mutes[pair][place] = kind == "mute"


def redrive_an_overtaken_request(world: LongWorld) -> None:
    """Redrive a message that is older than a granted request; it must change nothing."""
    now = world.clock.now_ms()
    young = [each for each in world.granted if now - each[2] < MAX_FIRST_SENT_MS - 2 * HOUR_MS]
    if not young:
        return
    (user, publisher), kind, at_ms = world.drawn.choice(young)
    latest, oldest = at_ms - 1_000, now - MAX_FIRST_SENT_MS + HOUR_MS
    first = max(oldest, latest - int(world.drawn.uniform(0, DAY)))
    type_ = contract.FOLLOW_REMOVED if kind == "follow" else contract.FOLLOW_ADDED
    content = {"version": 1, "type": type_, "user_id": user, "publisher_id": publisher}
    requests.send(world, content, first_sent_ms=first)


# Operators, and faults that last


def pause(world: LongWorld) -> float:
    """Pause queues; return the number of days."""
    queues = world.drawn.sample([queue.name for queue in MAPPED], world.drawn.randint(1, 2))
    world.triggers.pause(set(queues))
    world.note(f"paused: {queues}")
    return world.drawn.choice(PAUSED_DAYS)


def rob(world: LongWorld, ref_id: str) -> None:
    """Remove the row of a planned post, before its orders are received.

    Without a plan, "PLAN ends it when SWEEP asks about it" (decision 0048): nothing is delivered.
    """
    key = {"ref_id": {"S": ref_id}}
    row = world.row(names.POSTS, key)
    fanout = world.row(names.FANOUTS, {"fanout_id": {"S": ref_id}})
    if row and fanout and "segments" in fanout:
        world.robbed[ref_id] = row
        world.spoilt.add(ref_id)
        world.dynamodb.delete_item(TableName=names.POSTS.name, Key=key)
        world.note(f"the row of {ref_id} is lost")


def restore(world: LongWorld, ref_id: str) -> None:
    """Put the row of a post back."""
    if row := world.robbed.pop(ref_id, None):
        world.dynamodb.put_item(TableName=names.POSTS.name, Item=row)
        world.note(f"the row of {ref_id} is restored")


def resend(world: LongWorld, ref_id: str) -> None:
    """Resend a stalled fan-out, as `fanfold fanout resend` does."""
    ledger, is_ours = stores(boto.dynamodb()).ledger, False
    for _ in range(5):
        with suppress(ClientError, BotoCoreError, Unsent):
            row = ledger.get(ref_id)
            if row is None or not (is_ours or row.state == STALLED):
                return
            row = ledger.reopen(row, now=times.to_text(world.clock.now_ms()))
            if row is None:
                return
            is_ours = True  # a person repeats what could not be sent
            if row.awaits_plan:
                command = PlanFanout(fanout_id=ref_id).message(group=row.publisher_id)
                WorkQueue(boto.sqs(), queue_url(names.PUBLISH)).send(command)
            else:
                lanes = (WorkQueue(boto.sqs(), queue_url(each)) for each in names.LANES)
                Lanes(*lanes).send_pending(row)
            return
        world.scheduler.sleep(1.0)

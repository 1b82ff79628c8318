"""The HTTP API except reads of posts: publish, edit, retract, follow, mute, the marker."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import clock, contract, names, times
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import AT_A_TIME
from fanfold.errors import BadInput
from fanfold.fanout.publishing.publish import NewPost
from fanfold.fanout.status import status_for
from fanfold.follows.follow import Following
from fanfold.follows.publisher.access import Access
from fanfold.follows.publisher.audience import Audience
from fanfold.follows.publisher.followers import Followers
from fanfold.follows.publisher.privacy import ENFORCED_MS
from fanfold.follows.relation import FOLLOWED, REQUESTED
from fanfold.ids import ref_id_for, split_sort_key
from fanfold.settings import Settings
from fanfold.stores import Stores
from fanfold.timeline.mutes import Mutes
from fanfold.timeline.read_marker import Marking
from functions import _clients, _wiring
from functions._http import Answer, Event, Request, answer, logger, respond
from functions._intake import (
    body_of,
    body_text,
    read_edit_request,
    read_marker_request,
    read_privacy_request,
    read_publish_request,
)

if TYPE_CHECKING:
    from fanfold import answers
    from fanfold.follows.relation import Follow, Privacy

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
publish_queue = WorkQueue(sqs, settings.publish_queue_url)
ledger = stores.ledger
publishing = _wiring.publishing(stores)
heads = _wiring.known_head(stores)
follows, privacies = stores.follows(heads), stores.privacies
relations = settings, names.API, follows, _wiring.edges(settings), privacies, sqs
following, audience = Following.of(*relations), Audience.of(*relations)
marking, mutes = Marking(stores.readers), Mutes(stores.readers)
followers = Followers(
    stores.edges,
    stores.publishers,
    settings.follower_readers,
    Access(follows, privacies),
    _clients.threads(AT_A_TIME),
)


def publish(request: Request) -> Answer:
    """Accept a post; an answer of 202 promises its delivery."""
    body = read_publish_request(request.body())
    key = request.header("idempotency-key")
    published = publishing.publish(
        NewPost(
            publisher_id=request.user_id,
            ref_id=clock.new_id() if key is None else ref_id_for(request.user_id, key),
            published_at=body.published_at,
            body=body_of(body.body),
        ),
        accepted_at=request.received_at,
        plan_queue=publish_queue,
    )
    post = published.post
    if not published.command_sent:
        logger.warning("PLAN's command was not sent; SWEEP will send it.", ref_id=post.ref_id)
    accepted: answers.Accepted = {
        "ref_id": post.ref_id,
        "published_at": post.published_at,
        "accepted_at": post.accepted_at,
    }
    return answer(202, accepted)


def edit(request: Request) -> Answer:
    ref_id = request.path_id("ref_id")
    edited_at = publishing.edit_own(
        ref_id,
        publisher_id=request.user_id,
        body=body_text(read_edit_request(request.body()).body),
        edited_at=request.asked_at,
    )
    edited: answers.Edited = {"ref_id": ref_id, "edited_at": edited_at}
    return answer(200, edited)


def retract(request: Request) -> Answer:
    publishing.retract_own(
        request.path_id("ref_id"), publisher_id=request.user_id, retracted_at=request.received_at
    )
    return answer(204)


def show_delivery(request: Request) -> Answer:
    """The progress of a delivery, for the publisher of the post."""
    status = status_for(ledger, request.path_id("ref_id"), publisher_id=request.user_id)
    return answer(200, asdict(status))


def follow(request: Request) -> Answer:
    relation = following.follow(
        request.user_id, request.path_id("publisher_id"), asked_at=request.received_at
    )
    # There is neither follow nor request if a later unfollow has overtaken this request's first
    # attempt.
    at = times.to_text(request.received_at)
    if not relation.is_active and (relation.is_requested or following.must_ask(relation)):
        return answer(202, _requested(relation, relation.requested_at or at))
    return answer(200, _followed(replace(relation, followed_at=relation.followed_at or at)))


def unfollow(request: Request) -> Answer:
    following.unfollow(
        request.user_id, request.path_id("publisher_id"), asked_at=request.received_at
    )
    return answer(204)


def show_following(request: Request) -> Answer:
    """Whether the user follows this publisher, or has asked to."""
    relation = following.relation(request.user_id, request.path_id("publisher_id"))
    related: answers.Related = {
        "publisher_id": relation.publisher_id,
        "state": relation.state,
    }
    if relation.is_active:
        related["followed_at"] = relation.followed_at
    if relation.requested_at:
        related["requested_at"] = relation.requested_at
    return answer(200, related)


def list_following(request: Request) -> Answer:
    """One page of the publishers that the user follows or has asked to, in order of their ids."""
    state = request.query.get("state", FOLLOWED)
    if state not in (FOLLOWED, REQUESTED):
        raise BadInput(f"'state' must be {FOLLOWED} or {REQUESTED}.")
    follows, next_cursor = following.list(
        request.user_id, limit=request.limit(), after=request.query.get("cursor"), state=state
    )
    page: answers.FollowingPage = {
        "following": [
            _requested(follow, follow.requested_at) if follow.is_requested else _followed(follow)
            for follow in follows
        ],
        "count": following.count(request.user_id, state),
        "next": next_cursor,
    }
    return answer(200, page)


def choose_privacy(request: Request) -> Answer:
    chosen = read_privacy_request(request.body())
    privacy = audience.choose(request.user_id, is_private=chosen.private, asked_at=request.asked_at)
    return answer(200, _privacy(privacy))


def show_privacy(request: Request) -> Answer:
    return answer(200, _privacy(privacies.read(request.user_id)))


def list_requests(request: Request) -> Answer:
    """One page of who asks to follow the user, newest first."""
    found, next_cursor = audience.requests(
        request.user_id, limit=request.limit(), after=request.query.get("cursor")
    )
    page: answers.RequestsPage = {
        "requests": [{"user_id": each.user_id, "requested_at": each.at} for each in found],
        "next": next_cursor,
    }
    return answer(200, page)


def approve(request: Request) -> Answer:
    user_id = request.path_id("user_id")
    relation = audience.approve(request.user_id, user_id, asked_at=request.received_at)
    approved: answers.Approved = {"user_id": user_id, "followed_at": relation.followed_at}
    return answer(200, approved)


def remove(request: Request) -> Answer:
    audience.remove(request.user_id, request.path_id("user_id"), asked_at=request.received_at)
    return answer(204)


def block(request: Request) -> Answer:
    audience.block(request.user_id, request.path_id("user_id"), asked_at=request.received_at)
    return answer(204)


def unblock(request: Request) -> Answer:
    audience.unblock(request.user_id, request.path_id("user_id"), asked_at=request.received_at)
    return answer(204)


def list_blocked(request: Request) -> Answer:
    """One page of whom the user blocks, in order of their ids."""
    found, next_cursor = audience.blocks(
        request.user_id, limit=request.limit(), after=request.query.get("cursor")
    )
    page: answers.BlockedPage = {
        "blocked": [{"user_id": each} for each in found],
        "next": next_cursor,
    }
    return answer(200, page)


def mute(request: Request) -> Answer:
    publisher_id = request.path_id("publisher_id")
    mutes.mute(request.user_id, publisher_id, asked_at=request.received_at)
    return answer(204)


def unmute(request: Request) -> Answer:
    publisher_id = request.path_id("publisher_id")
    mutes.unmute(request.user_id, publisher_id, asked_at=request.received_at)
    return answer(204)


def list_muted(request: Request) -> Answer:
    """One page of the publishers that the user has muted, in order of their ids."""
    muted, next_cursor = mutes.list(
        request.user_id, limit=request.limit(), after=request.query.get("cursor")
    )
    page: answers.MutedPage = {
        "muted": [{"publisher_id": each} for each in muted],
        "next": next_cursor,
    }
    return answer(200, page)


def move_marker(request: Request) -> Answer:
    """Move the marker up to an entry; an older one changes nothing."""
    entry = read_marker_request(request.body())
    published_at, ref_id = split_sort_key(
        marking.read_up_to(
            request.user_id, times.to_ms(entry.published_at), entry.ref_id, now=request.received_at
        )
    )
    marker: answers.MovedMarker = {"published_at": published_at, "ref_id": ref_id}
    return answer(200, marker)


def list_followers(request: Request) -> Answer:
    """One page of a publisher's followers, in the order of their hashes."""
    found, next_cursor = followers.list(
        request.user_id,
        request.path_id("publisher_id"),
        limit=request.limit(),
        after=request.query.get("cursor"),
    )
    page: answers.FollowersPage = {
        "followers": [{"user_id": user_id} for user_id in found],
        "next": next_cursor,
    }
    return answer(200, page)


def count_followers(request: Request) -> Answer:
    known = followers.count(request.user_id, request.path_id("publisher_id"))
    count: answers.FollowersCount = {"followers": known.followers, "exact": known.exact}
    return answer(200, count)


def _followed(follow: Follow) -> answers.Followed:
    return {"publisher_id": follow.publisher_id, "followed_at": follow.followed_at}


def _requested(follow: Follow, requested_at: str) -> answers.Requested:
    return {
        "publisher_id": follow.publisher_id,
        "state": REQUESTED,
        "requested_at": requested_at,
    }


def _privacy(privacy: Privacy) -> answers.Me:
    since, is_private = privacy.since, privacy.is_private
    return {
        "private": is_private,
        "since": times.to_text(since) if since else None,
        "enforced_from": times.to_text(since + ENFORCED_MS) if since and is_private else None,
    }


ACTIONS = {
    contract.PUBLISH_POST: publish,
    contract.EDIT_POST: edit,
    contract.RETRACT_POST: retract,
    contract.SHOW_DELIVERY: show_delivery,
    contract.FOLLOW: follow,
    contract.UNFOLLOW: unfollow,
    contract.SHOW_FOLLOWING: show_following,
    contract.LIST_FOLLOWING: list_following,
    contract.CHOOSE_PRIVACY: choose_privacy,
    contract.SHOW_PRIVACY: show_privacy,
    contract.LIST_REQUESTS: list_requests,
    contract.APPROVE: approve,
    contract.REMOVE: remove,
    contract.BLOCK: block,
    contract.UNBLOCK: unblock,
    contract.LIST_BLOCKED: list_blocked,
    contract.MUTE: mute,
    contract.UNMUTE: unmute,
    contract.LIST_MUTED: list_muted,
    contract.MOVE_MARKER: move_marker,
    contract.LIST_FOLLOWERS: list_followers,
    contract.COUNT_FOLLOWERS: count_followers,
}
if history := _wiring.history(settings):
    ACTIONS = history.of_requests(ACTIONS)


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: Event, context: LambdaContext) -> dict[str, Any]:
    return respond(event, ACTIONS, user_claim=settings.user_claim)

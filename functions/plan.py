"""PLAN: takes the publish queue, with messages of other services and commands to plan."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import contract, names
from fanfold.aws.retries import AT_A_TIME
from fanfold.errors import (
    BlockedByYou,
    EditOvertaken,
    NoPost,
    NoRequest,
    NotTheirs,
    NotYet,
    PostRetracted,
)
from fanfold.fanout.deliver import HAND_BACK_SECONDS
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import IN_CHANNEL, Planning
from fanfold.fanout.publishing.publish import NewPost
from fanfold.fanout.row import VOID
from fanfold.fanout.transport.loop import JOIN_SECONDS, Loop
from fanfold.follows.follow import Following
from fanfold.follows.publisher.audience import Audience
from fanfold.follows.relation import Follow
from fanfold.messages import PlanFanout, parse
from fanfold.settings import Settings
from fanfold.stores import Stores
from functions import _clients, _wiring
from functions._intake import (
    Event,
    FollowAdded,
    FollowerApproved,
    FollowerRemoved,
    FollowRemoved,
    PostDeleted,
    PostPublished,
    PostUpdated,
    UserBlocked,
    UserUnblocked,
    actors,
    body_of,
    body_text,
    read_event,
)
from functions._reports import count, report_delivery
from functions._worker import Received, logger, queue_name, sources, work

Message = PlanFanout | Event
POSTS = (PostPublished, PostUpdated, PostDeleted)

settings = Settings.from_env()
stores, sqs = Stores(_clients.dynamodb(settings), settings), _clients.sqs(settings)
publishing = _wiring.publishing(stores)
heads = _wiring.known_head(stores)
planning = Planning(
    _wiring.lookup(stores, _clients.together(settings, callers=names.PUBLISH.batch_size)),
    stores.ledger,
    stores.edges,
    Lanes.of(settings, sqs),
    # The messages of a batch share its connections and its pace.
    Loop(_clients.transport(settings, is_shared=True), join_seconds=JOIN_SECONDS),
    _clients.threads(AT_A_TIME),
    _wiring.channel_delivery(stores, heads),
)
senders = _wiring.senders(settings)
follows, edges = stores.follows(heads), _wiring.edges(settings)
relations = settings, names.PLAN, follows, edges, stores.privacies, sqs
following, audience = Following.of(*relations), Audience.of(*relations)
history = _wiring.history(settings)
SOURCES = sources(settings, sqs, names.PUBLISH)
# One thread per message of a batch: no message waits for another's calls, or behind a celebrity.
MESSAGES = _clients.threads(names.PUBLISH.batch_size)
# Kept between invocations: a pace has learnt what the table takes.
PACES = {
    queue_name(settings.publish_queue_url): Pace(
        settings.publish_worker_rate,
        burst=settings.publish_burst,
        slowest=settings.publish_slowest_rate,
    )
}


def _read(body: str) -> Message:
    content = parse(body)
    if content.get("type") == contract.FANOUT_PLAN:
        return PlanFanout.from_content(content)
    return read_event(content)


def take(received: Received[Message]) -> Follow | None:
    """Handle a message; returns the relation of a user who follows by it, for the history."""
    message, at = received.message, received.first_sent_at
    if isinstance(message, PlanFanout):
        _plan(message.fanout_id, received.group, received)
        return None
    for actor in actors(message):
        _check_sender(received, actor)
    match message:
        case PostPublished() as event:
            _check_sender(received, event.publisher_id, takes=event.ref_id)
            _publish(event, received)
        case PostUpdated() as event:
            _edit(event, at)
        case PostDeleted() as event:
            _retract(event, received)
        case _:
            return _relate(message, at)
    return None


def _relate(event: Event, at: int) -> Follow | None:
    """Change what is between a user and a publisher."""
    try:
        match event:
            case FollowAdded(_, _, user_id, publisher_id, approved):
                return following.follow(
                    user_id, publisher_id, asked_at=at, by_message=True, approves=approved
                )
            case FollowRemoved(_, _, user_id, publisher_id):
                following.unfollow(user_id, publisher_id, asked_at=at, by_message=True)
            case FollowerApproved(_, _, user_id, publisher_id):
                return audience.approve(publisher_id, user_id, asked_at=at, by_message=True)
            case FollowerRemoved(_, _, user_id, publisher_id):
                audience.remove(publisher_id, user_id, asked_at=at, by_message=True)
            case UserBlocked(_, _, user_id, publisher_id):
                audience.block(publisher_id, user_id, asked_at=at, by_message=True)
            case UserUnblocked(_, _, user_id, publisher_id):
                audience.unblock(publisher_id, user_id, asked_at=at, by_message=True)
    except BlockedByYou as error:
        logger.info("A follow was dropped.", reason=error.unquoted)
    except NoRequest as error:
        # A standard queue may deliver the approval first.
        raise NotYet(error.unquoted) from None
    return None


def _check_sender(received: Received[Message], actor: str, *, takes: str = "") -> None:
    if senders:
        senders.check(
            actor, sender_id=received.sender_id, carried=received.first_senders, takes=takes
        )


def _publish(event: PostPublished, received: Received[Message]) -> None:
    new = NewPost(
        publisher_id=event.publisher_id,
        ref_id=event.ref_id,
        published_at=event.published_at,
        body=body_of(event.body),
    )
    try:
        post = publishing.accept(new, accepted_at=received.first_sent_at, sent_at=received.sent_at)
    except PostRetracted:
        # A standard queue may deliver the retraction first.
        logger.info("A retracted post was not published.", ref_id=event.ref_id)
        return
    if history:
        history.published(post, is_message=True)
    _plan(post.ref_id, post.publisher_id, received)


def _plan(fanout_id: str, publisher_id: str, received: Received[Message]) -> None:
    outcome = planning.plan(
        fanout_id,
        publisher_id=publisher_id,
        pace=PACES[received.queue],
        redelivered=received.redelivered,
        stop_at=received.stop_at - HAND_BACK_SECONDS,
    )
    if outcome.what == VOID:  # a publish that failed; or a post that was lost, as nobody can tell
        logger.warning("A delivery was ended because its post is missing.", fanout_id=fanout_id)
        count(names.FANOUTS_VOIDED, 1)
    logger.info(
        "A post was planned.", outcome=outcome.what, fanout_id=fanout_id, written=outcome.written
    )
    report_delivery(names.PUBLISH.lane, outcome)
    if history and outcome.seconds is not None:
        history.completed(fanout_id, in_channel=outcome.what == IN_CHANNEL)


def _edit(event: PostUpdated, edited_at: int) -> None:
    try:
        publishing.edit(
            event.ref_id,
            publisher_id=event.publisher_id,
            body=body_text(event.body),
            edited_at=edited_at,
        )
    except NoPost:
        # A standard queue may deliver the edit first.
        raise NotYet(
            f"The post '{event.ref_id}' to be edited is not published, or has expired."
        ) from None
    except (PostRetracted, EditOvertaken) as error:
        logger.info("An edit was dropped.", ref_id=event.ref_id, reason=error.unquoted)


def _retract(event: PostDeleted, received: Received[Message]) -> None:
    ref_id, publisher_id, at = event.ref_id, event.publisher_id, received.first_sent_at
    try:
        _check_sender(received, publisher_id, takes=ref_id)
    except NotTheirs as refusal:
        # The publisher may still retract what it has published: that takes nothing.
        try:
            publishing.retract_own(ref_id, publisher_id=publisher_id, retracted_at=at)
        except NoPost:
            raise refusal from None
        return
    publishing.retract(ref_id, publisher_id=publisher_id, retracted_at=at)


def _turn(message: Message) -> str | None:
    """What messages of a batch contend for: those are handled one after the other.

    One row counts the follows of a user. And an edit sent just after its post then finds it.
    """
    if isinstance(message, PlanFanout):
        return None
    return message.ref_id if isinstance(message, POSTS) else message.user_id


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    handle = history.of_messages(take) if history else take
    return work(event, context, _read, handle, sources=SOURCES, threads=MESSAGES, in_turn=_turn)

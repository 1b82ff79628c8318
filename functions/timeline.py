"""Reads timelines and posts over HTTP."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import contract
from fanfold.aws.retries import AT_A_TIME
from fanfold.channels.reading import ChannelPage, ChannelReading
from fanfold.errors import BadInput
from fanfold.settings import Settings
from fanfold.stores import Stores
from fanfold.timeline import paging
from fanfold.timeline.post_cache import Hydration
from fanfold.timeline.unread import UnreadCount
from fanfold.timeline.visibility import Reading, Visibility
from functions import _clients, _wiring
from functions._http import Answer, Event, Request, answer, logger, respond

if TYPE_CHECKING:
    from fanfold.timeline.feed import Feeds

settings = Settings.from_env()
stores = Stores(_clients.dynamodb(settings), settings)
hydration = Hydration(stores.posts)


def followed(user_id: str, publisher_ids: Collection[str]) -> tuple[set[str], set[str]]:
    """Which of these publishers the user follows, and which could not be read."""
    return stores.follows().active_among(user_id, publisher_ids)


channels = ChannelReading(_wiring.known_head(stores), stores.entries)
# Up to 64 channels; without any, two calls.
together = _clients.together(settings, at_the_same_time=AT_A_TIME)
visibility = Visibility(
    stores.entries,
    stores.readers,
    together,
    followed,
    settings.retention_days,
    partial(ChannelPage, channels),
    settings.entry_days,
)
reading, unread = Reading(hydration, visibility), UnreadCount(visibility)


@cache
def feeds() -> Feeds:
    # Imported here, so that the first page of a timeline need not wait for it.
    from fanfold.follows.publisher.access import Access
    from fanfold.timeline.feed import Feeds

    days, readers = settings.retention_days, settings.post_readers
    may_see = Access(stores.follows(), stores.privacies).is_given
    return Feeds(stores.posts, stores.outbox, hydration, days, readers, may_see)


def read(request: Request) -> Answer:
    asked, hydrate = _page(request)
    return answer(200, reading.page(request.user_id, asked, hydrate=hydrate))


def read_marker(request: Request) -> Answer:
    return answer(200, unread.marker(request.user_id))


def count_unread(request: Request) -> Answer:
    return answer(200, unread.count(request.user_id))


def read_feed(request: Request) -> Answer:
    publisher_id = request.path_id("publisher_id")
    asked, hydrate = _page(request)
    return answer(200, feeds().page(request.user_id, publisher_id, asked, hydrate=hydrate))


def _page(request: Request) -> tuple[paging.Asked, bool]:
    """The requested page, and whether with content."""
    hydrate = request.query.get("hydrate", "true")
    if hydrate not in ("true", "false"):
        raise BadInput("'hydrate' must be true or false.")
    return paging.asked(request.query, request.limit()), hydrate == "true"


def read_post(request: Request) -> Answer:
    return answer(200, feeds().post(request.user_id, request.path_id("ref_id")))


ACTIONS = {
    contract.READ_TIMELINE: read,
    contract.READ_MARKER: read_marker,
    contract.COUNT_UNREAD: count_unread,
    contract.READ_POST: read_post,
    contract.READ_FEED: read_feed,
}
if history := _wiring.history(settings):
    ACTIONS = history.of_requests(ACTIONS)


@logger.inject_lambda_context(log_event=False)  # whatever the environment says
def handler(event: Event, context: LambdaContext) -> dict[str, Any]:
    return respond(event, ACTIONS, user_claim=settings.user_claim)

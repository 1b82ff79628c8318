"""QUERY: reads timelines and posts over HTTP."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import contract
from fanfold.errors import BadInput
from fanfold.settings import Settings
from fanfold.timeline import paging
from fanfold.timeline.entries import Entries
from fanfold.timeline.feed import Feeds
from fanfold.timeline.posts import Posts
from fanfold.timeline.read import Hydration, Reading
from functions import _clients
from functions._http import Answer, Event, Request, answer, logger, respond

settings = Settings.from_env()
dynamodb = _clients.dynamodb(settings)
posts = Posts(dynamodb, settings.posts_table)
hydration = Hydration(posts)
reading = Reading(Entries(dynamodb, settings.timelines_table), hydration, settings.retention_days)
feeds = Feeds(posts, hydration, settings.retention_days, settings.post_readers)


def read(request: Request) -> Answer:
    query = request.query
    hydrate = query.get("hydrate", "true")
    if hydrate not in ("true", "false"):
        raise BadInput("'hydrate' must be true or false.")
    asked = paging.asked(query, request.limit())
    return answer(200, reading.page(request.user_id, asked, hydrate=hydrate == "true"))


def read_post(request: Request) -> Answer:
    return answer(200, feeds.post(request.user_id, request.path_id("ref_id")))


ACTIONS = {
    contract.READ_TIMELINE: read,
    contract.READ_POST: read_post,
}


@logger.inject_lambda_context
def handler(event: Event, context: LambdaContext) -> dict[str, Any]:
    return respond(event, ACTIONS, user_claim=settings.user_claim)

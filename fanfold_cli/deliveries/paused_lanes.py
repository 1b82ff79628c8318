"""Which lanes of a stack are paused, read for views of it: one call, and one for each such lane."""

import re
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import names
from fanfold.aws.event_sources import PAUSED
from fanfold_cli.deliveries import pauses
from fanfold_cli.deliveries.pauses import Pause, Paused, PausedLane
from fanfold_cli.stack import Deployment


def read(deployment: Deployment) -> Paused:
    """What a view says beside its own: no view fails where this may not, or cannot, be read."""
    queues = {queue: deployment.output(queue.url_output) for queue in names.PAUSABLE}
    sqs = deployment.client("sqs")
    try:
        states = _states(deployment.client("lambda"), set(map(_place, queues.values())))
    except (ClientError, BotoCoreError) as error:
        return Paused(failure=str(error))
    paused = ((queue, url) for queue, url in queues.items() if states.get(_place(url)) in PAUSED)
    return Paused(tuple(PausedLane(queue.name.lower(), _noted(sqs, url)) for queue, url in paused))


def _states(lambda_: Any, wanted: set[str]) -> dict[str, str]:
    """The states of these queues' mappings, by pages of all that the account has."""
    found: dict[str, str] = {}
    page: dict[str, str] | None = {}
    while page is not None and len(found) < len(wanted):
        answer = lambda_.list_event_source_mappings(**page)
        for each in answer["EventSourceMappings"]:
            if (place := _place(each.get("EventSourceArn", ""))) in wanted:
                found[place] = each["State"]
        page = {"Marker": answer["NextMarker"]} if answer.get("NextMarker") else None
    return found


def _place(name: str) -> str:
    """Account and name of a queue, with which both its URL and its ARN end."""
    return ":".join(re.split("[/:]", name)[-2:])


def _noted(sqs: Any, url: str) -> tuple[Pause, ...] | None:
    try:
        return tuple(pauses.noted(sqs, url))
    except (ClientError, BotoCoreError):
        return None

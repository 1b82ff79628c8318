"""The queues of a stack as the commands name them."""

from enum import StrEnum

from fanfold import names
from fanfold_cli.stack import Deployment

BY_NAME = {queue.name.lower(): queue for queue in names.QUEUES}


class QueueName(StrEnum):
    """A queue, or its dead-letter queue."""

    PUBLISH = "publish"
    EXPRESS = "express"
    BULK = "bulk"
    RELATION = "relation"


def chosen(name: QueueName | None) -> tuple[names.Queue, ...]:
    """The queue of this name, or all of them."""
    return names.QUEUES if name is None else (BY_NAME[name],)


def arn_of(deployment: Deployment, url: str) -> str:
    """The ARN of a queue."""
    answer = deployment.client("sqs").get_queue_attributes(
        QueueUrl=url, AttributeNames=["QueueArn"]
    )
    return str(answer["Attributes"]["QueueArn"])

"""The library that calls AWS in DELIVER and QUERY: libcurl or boto3, as the stage says.

Only the chosen one is imported: boto3 alone is more than half of a cold start.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fanfold.names import BOTO3
from fanfold.settings import Settings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from fanfold.fanout.transport import Transport
    from fanfold.timeline.sight import Together

# Calls of one page.
AT_THE_SAME_TIME = 2


def dynamodb(settings: Settings) -> DynamoDBClient:
    """A client with the calls of DELIVER and QUERY."""
    if settings.transport == BOTO3:
        from fanfold.aws import boto

        return boto.dynamodb()
    from fanfold.aws import curl

    return curl.dynamodb()


def together(settings: Settings) -> Together:
    """Makes calls of that client at the same time."""
    if settings.transport == BOTO3:
        from fanfold.aws import boto

        return partial(boto.together, boto.dynamodb(), boto.threads(AT_THE_SAME_TIME))
    from fanfold.aws import curl

    return curl.dynamodb().together  # type: ignore[attr-defined,no-any-return]


def sqs(settings: Settings) -> SQSClient:
    """A client with the calls of DELIVER."""
    if settings.transport == BOTO3:
        from fanfold.aws import boto

        return boto.sqs()
    from fanfold.aws import curl

    return curl.sqs()


def transport(settings: Settings) -> Transport:
    """The transport of a delivery. It does not retry: the policy of a delivery does."""
    from fanfold.follows.edges_table import EdgesTable
    from fanfold.timeline.entries import Entries

    if settings.transport == BOTO3:
        from fanfold.aws import boto
        from fanfold.fanout.transport import CONNECTIONS
        from fanfold.fanout.transport_boto3 import Boto3Transport

        client = boto.dynamodb(attempts=1, connections=CONNECTIONS)
        return Boto3Transport(
            EdgesTable(client, settings.followers_table),
            Entries(client, settings.timelines_table),
        )
    from fanfold.aws import curl
    from fanfold.fanout.transport_curl import CurlTransport

    return CurlTransport(
        EdgesTable(curl.dynamodb(), settings.followers_table),
        Entries(curl.dynamodb(), settings.timelines_table),
        curl.connections(curl.DYNAMODB),
    )

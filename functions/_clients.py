"""The library that calls AWS in the functions: libcurl or boto3, as the stage says.

Only the chosen one is imported, and with libcurl, the asset has no boto3: that alone is more than
half of a cold start.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from fanfold.names import BOTO3
from fanfold.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

    from fanfold.aws.threads import Together
    from fanfold.fanout.transport.loop import Transport

# Calls of one page, or one lookup.
AT_THE_SAME_TIME = 2


def dynamodb(settings: Settings, **attempts: int) -> DynamoDBClient:
    """A client, which any thread may use; with `attempts=1` for code that retries by itself.

    The libraries know the default; they keep a client for each way of asking for it.
    """
    return _library(settings).dynamodb(**attempts)


def sqs(settings: Settings) -> SQSClient:
    return _library(settings).sqs()


def lambda_(settings: Settings) -> LambdaClient:
    """A client that reads event source mappings."""
    return _library(settings).lambda_()


class _Library(Protocol):
    def dynamodb(self, **attempts: int) -> DynamoDBClient: ...
    def sqs(self) -> SQSClient: ...
    def lambda_(self) -> LambdaClient: ...


def _library(settings: Settings) -> _Library:
    if settings.transport == BOTO3:
        from fanfold.aws import boto

        return boto
    from fanfold.aws import curl

    return curl


def threads(count: int) -> Executor:
    """A thread pool of the caller's own, for `count` concurrent calls."""
    from fanfold.aws import threads  # DELIVER and TIMELINE need none

    return threads.pool(count)


def together(
    settings: Settings, *, callers: int = 1, at_the_same_time: int = AT_THE_SAME_TIME
) -> Together:
    """Makes calls of that client at the same time, for this many threads.

    Each thread may have any number of calls, and `at_the_same_time` in flight; with libcurl, up to
    `AT_A_TIME`.
    """
    if settings.transport == BOTO3:
        from fanfold.aws.threads import together

        return partial(together, dynamodb(settings), threads(callers * at_the_same_time))
    return dynamodb(settings).together  # type: ignore[attr-defined,no-any-return]


def transport(settings: Settings, *, is_shared: bool = False) -> Transport:
    """The transport of a delivery. It does not retry: the policy of a delivery does.

    If it `is_shared`, any thread may use it, one at a time. Otherwise only the calling thread uses
    it, on the connections of its clients: another pool would be another handshake.
    """
    from fanfold.stores import Stores

    if settings.transport == BOTO3:
        from fanfold.aws import boto
        from fanfold.fanout.transport.boto3_transport import Boto3Transport
        from fanfold.fanout.transport.loop import CONNECTIONS

        stores = Stores(boto.dynamodb(attempts=1, connections=CONNECTIONS), settings)
        return Boto3Transport(stores.edges, stores.entries)
    from fanfold.aws import curl
    from fanfold.aws.connections import DYNAMODB
    from fanfold.fanout.transport.curl_transport import CurlTransport

    stores = Stores(curl.dynamodb(), settings)
    return CurlTransport(
        stores.edges,
        stores.entries,
        curl.connections(DYNAMODB) if is_shared else curl.of_threads(DYNAMODB).own,
    )

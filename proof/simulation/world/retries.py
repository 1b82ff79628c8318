"""The errors after which boto3's clients retry, in mode `standard`."""

from __future__ import annotations

from botocore.exceptions import ClientError

from fanfold.aws.retries import is_transient

# Errors that they leave to the caller, although the call may soon succeed.
LEFT_TO_CALLERS = ("TransactionCanceledException", "TransactionConflictException")


def is_repeated(error: Exception) -> bool:
    """Whether a client makes the same call again, if it has attempts left."""
    is_left = isinstance(error, ClientError) and error.response["Error"]["Code"] in LEFT_TO_CALLERS
    return is_transient(error) and not is_left

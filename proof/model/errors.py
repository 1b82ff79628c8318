"""Errors of AWS: our own exceptions inside the model, botocore's at its edge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError, ParamValidationError
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

# SQS keeps the error codes of its query protocol: most are the exception's name behind a prefix.
OLD_CODES = {"AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist"}


class Refused(Exception):
    """The service answers with an error; `details` are next to `Error` in the answer."""

    def __init__(
        self,
        code: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        status: int = 400,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.details = dict(details or {})
        self.status = status


class Invalid(Refused):
    """The request breaks a rule, so it never succeeds."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)

    @staticmethod
    def value(reason: str) -> Invalid:
        """A value that DynamoDB cannot take."""
        return Invalid(f"One or more parameter values were invalid: {reason}")

    @staticmethod
    def length(member: str, rule: str) -> Invalid:
        """A list of the request is too short or too long."""
        return Invalid(
            f"1 validation error detected: Value at '{member}' failed to satisfy constraint: "
            f"Member must have length {rule}"
        )


@cache
def service_model(service: str) -> ServiceModel:
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


@cache
def exceptions(service: str) -> Any:
    """The attribute `exceptions` of the service's clients: subclasses of `ClientError`."""
    return ClientExceptionsFactory().create_client_exceptions(service_model(service))


def client_error(service: str, operation: str, refused: Refused) -> ClientError:
    """The exception that a boto3 client raises for this error."""
    known = exceptions(service)
    name = OLD_CODES.get(refused.code, refused.code.rpartition(".")[2])
    old = {} if name == refused.code else {"QueryErrorCode": name}
    response = {
        "Error": {"Code": refused.code, "Message": refused.message, **old},
        **refused.details,
        "ResponseMetadata": metadata(refused.status),
    }
    error: ClientError = known.from_code(name)(response, operation)
    return error


def check_parameters(service: str, operation: str, request: Mapping[str, Any]) -> None:
    """Raise `ParamValidationError` for a request that boto3 refuses to send."""
    shape = service_model(service).operation_model(operation).input_shape
    assert shape is not None
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


def metadata(status: int = 200) -> dict[str, Any]:
    return {
        "RequestId": "00000000-0000-0000-0000-000000000000",
        "HTTPStatusCode": status,
        "HTTPHeaders": {},
        "RetryAttempts": 0,
    }

"""AWS's refusals: by name inside the model, as botocore's own exceptions at its edge."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from botocore.errorfactory import ClientExceptionsFactory
from botocore.exceptions import ClientError, ParamValidationError
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator

# SQS keeps the codes of its first protocol; most are the exception's name behind a prefix.
OLD_CODES = {"AWS.SimpleQueueService.NonExistentQueue": "QueueDoesNotExist"}


class Refused(Exception):
    """A call that the service answers with an error; `details` stand beside `Error` in it."""

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
    """The request breaks a rule; the same request never succeeds."""

    def __init__(self, message: str) -> None:
        super().__init__("ValidationException", message)


@cache
def service_model(service: str) -> ServiceModel:
    """Botocore's description of a service."""
    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


@cache
def exceptions(service: str) -> Any:
    """What a client of the service has as `exceptions`: classes below `ClientError`, by name."""
    return ClientExceptionsFactory().create_client_exceptions(service_model(service))


def client_error(service: str, operation: str, refused: Refused) -> ClientError:
    """The exception that a boto3 client would raise."""
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
    """Refuse a request that boto3 would not even send; raises `ParamValidationError`."""
    shape = service_model(service).operation_model(operation).input_shape
    assert shape is not None
    report = ParamValidator().validate(request, shape)
    if report.has_errors():
        raise ParamValidationError(report=report.generate_report())


def metadata(status: int = 200) -> dict[str, Any]:
    """What every answer of boto3 carries."""
    return {
        "RequestId": "00000000-0000-0000-0000-000000000000",
        "HTTPStatusCode": status,
        "HTTPHeaders": {},
        "RetryAttempts": 0,
    }

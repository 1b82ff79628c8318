"""Troubles: failures for minutes, for hours, or until somebody repairs them."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from proof.model import errors
from proof.model.errors import Refused
from proof.simulation.world.aws_clients import running, tables_of

# Errors by service: some are transient, others stay until somebody acts.
THROTTLES = {
    "dynamodb": ("ProvisionedThroughputExceededException", 400),
    "sqs": ("RequestThrottled", 403),
}
FAILURES = {"dynamodb": ("InternalServerError", 500), "sqs": ("ServiceUnavailable", 503)}
LASTING = {
    "dynamodb": (
        ("AccessDeniedException", 400),
        ("ValidationException", 400),
        ("ResourceNotFoundException", 400),
        ("KMSDisabledException", 400),
    ),
    "sqs": (
        ("AccessDenied", 403),
        ("InvalidParameterValue", 400),
        ("QueueDoesNotExist", 400),
        ("KmsDisabled", 400),
    ),
}


@dataclass
class Trouble:
    """While it is on, calls to one table or queue fail, perhaps only of one function or operation.

    `tells` says that an alarm should ring.
    """

    random: Random
    service: str
    resource: str
    code: str
    status: int
    function: str = ""
    operation: str = ""
    rate: float = 1.0
    tells: bool = True
    is_on: bool = False

    def before(self, service: str, operation: str, request: dict[str, Any]) -> None:
        """Perhaps refuse a call, without effect."""
        if not self.is_on or service != self.service or not self._concerns(request):
            return
        if self.operation not in ("", operation):
            return
        if self.rate < 1.0 and self.random.random() >= self.rate:
            return
        running.world.faults.injected["troubled"] += 1
        error = Refused(self.code, "As long as the trouble lasts.", status=self.status)
        raise errors.client_error(service, operation, error)

    def _concerns(self, request: dict[str, Any]) -> bool:
        if self.function:
            caller = running.world.scheduler.current.environment.partition(" ")[0]
            if not caller.endswith(f".{self.function}"):
                return False
        if self.service == "sqs":
            return str(request["QueueUrl"]).endswith(f"/{self.resource}")
        return self.resource in tables_of(request)

    def __str__(self) -> str:
        whose = f" of {self.function}" if self.function else ""
        return f"{self.code} of {self.resource}{whose}, {self.rate:.0%}"

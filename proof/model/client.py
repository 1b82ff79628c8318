"""A boto3 client on a model: its methods, its answers, its exceptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from botocore import xform_name

from proof.model import errors
from proof.model.errors import Refused

Request = dict[str, Any]
Answer = dict[str, Any]


class Client:
    """A client of one service, with a method for each of `operations`, such as `put_item`.

    `validates` checks every request's shape as boto3 does: wrong parameters raise
    `ParamValidationError`. Long simulations turn it off to save time.
    """

    service: ClassVar[str]
    # By wire name, such as `PutItem`; each is called with the state and the request.
    operations: ClassVar[Mapping[str, Callable[[Any, Request], Answer]]]

    def __init__(self, state: Any, *, validates: bool = True) -> None:
        self.state = state
        self.validates = validates
        self.exceptions = errors.exceptions(self.service)
        self._methods = {xform_name(operation): operation for operation in self.operations}

    def __getattr__(self, method: str) -> Callable[..., Answer]:
        operation = self._methods.get(method)
        if operation is None:
            raise AttributeError(f"The model of {self.service} has no {method}.")

        def call(**request: Any) -> Answer:
            return self.call(operation, request)

        self.__dict__[method] = call  # cached, so that later look-ups are fast
        return call

    def call(self, operation: str, request: Request) -> Answer:
        """Run an operation by its name on the wire."""
        if self.validates:
            errors.check_parameters(self.service, operation, request)
        try:
            answer = self.operations[operation](self.state, request)
        except Refused as refused:
            raise errors.client_error(self.service, operation, refused) from None
        answer["ResponseMetadata"] = errors.metadata()
        return answer

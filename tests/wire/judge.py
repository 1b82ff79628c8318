"""What botocore says of a request that libcurl's client sent: by its models and its serializer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.serialize import create_serializer
from botocore.validate import ParamValidator

from proof.model.endpoint import Answer, Backend, Request, read_request

SERVICES = ("dynamodb", "sqs")
# Without `x-amzn-query-mode`, which asks SQS for error codes of its old protocol.
COMPARED = ("X-Amz-Target", "Content-Type")


def objections(headers: Mapping[str, str], body: bytes) -> list[str]:
    """Sentences about what AWS would not take, or what botocore would have sent otherwise.

    Names of headers are in lower case.
    """
    prefix, _, name = headers.get("x-amz-target", "").rpartition(".")
    service = _services().get(prefix)
    if service is None or name not in service.operation_names:
        return [f"There is no operation {prefix}.{name}."]
    operation = service.operation_model(name)
    content = read_request(body)
    assert operation.input_shape is not None
    report = ParamValidator().validate(content, operation.input_shape)
    if report.has_errors():
        return [report.generate_report()]
    serializer = create_serializer(service.resolved_protocol, include_validation=False)
    botocores = serializer.serialize_to_request(content, operation)
    found = [*_wrong_values(content, operation.input_shape, name)]
    if json.loads(botocores["body"]) != json.loads(body):
        found.append(f"botocore sends another body: {botocores['body']!r}")
    return found + [
        f"{header} is {headers.get(header.lower())}, and botocore sends {botocores_own}."
        for header, botocores_own in botocores["headers"].items()
        if header in COMPARED and headers.get(header.lower()) != botocores_own
    ]


@contextmanager
def judged(backend: Backend) -> Iterator[Backend]:
    """The same backend; afterwards, all requests that came must have been valid."""
    found: list[str] = []

    def answer(request: Request) -> Answer:
        found.extend(objections(request.headers, request.body))
        return backend(request)

    yield answer
    assert not found, found


def _wrong_values(value: Any, shape: Any, at: str) -> Iterator[str]:
    """Values that are too long, or none of those allowed, which botocore leaves to AWS."""
    if shape.type_name == "structure":
        for name, member in value.items():
            yield from _wrong_values(member, shape.members[name], f"{at}.{name}")
    elif shape.type_name == "map":
        for key, member in value.items():
            yield from _wrong_values(key, shape.key, f"{at} (the key {key})")
            yield from _wrong_values(member, shape.value, f"{at}.{key}")
    elif shape.type_name == "list":
        for number, member in enumerate(value):
            yield from _wrong_values(member, shape.member, f"{at}[{number}]")
    rules = shape.metadata
    if shape.type_name in ("map", "list", "string") and len(value) > rules.get("max", len(value)):
        yield f"{at} is longer than {rules['max']}."
    if "enum" in rules and value not in rules["enum"]:
        yield f"{at} is {value!r}, which is none of {', '.join(rules['enum'])}."
    if "pattern" in rules and not re.fullmatch(rules["pattern"], value):
        yield f"{at} is {value!r}, which does not fit {rules['pattern']}."


@cache
def _services() -> dict[str, ServiceModel]:
    """The models by the prefix of their targets."""
    loader = Loader()
    models = [ServiceModel(loader.load_service_model(each, "service-2")) for each in SERVICES]
    return {model.metadata["targetPrefix"]: model for model in models}

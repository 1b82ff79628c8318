"""Computes the signature of a received request with botocore."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.wire.conftest import REGION, environment
from tests.wire.server import Call

AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<scope>[^,]+), SignedHeaders=(?P<signed>[a-z0-9;-]+), "
    r"Signature=[0-9a-f]{64}"
)


@dataclass(frozen=True)
class Signer:
    """The credentials and the scope of a signature."""

    access_key: str
    secret_key: str
    service: str
    region: str

    def signed(self, call: Call) -> bool:
        """Whether the signature is right for all headers that it says it covers."""
        return call.header("authorization") == self._authorization(call)

    def signed_for_its_service(self, call: Call) -> bool:
        """The same, of a call to DynamoDB or SQS, which its target names."""
        service = "sqs" if call.header("x-amz-target").startswith("AmazonSQS.") else "dynamodb"
        return replace(self, service=service).signed(call)

    def _authorization(self, call: Call) -> str:
        names = signed_headers(call)
        request = AWSRequest(
            call.method,
            f"http://{call.header('host')}{call.path}",
            {name: call.header(name) for name in names},
            call.body,
        )
        request.context["timestamp"] = call.header("x-amz-date")
        auth = SigV4Auth(Credentials(self.access_key, self.secret_key), self.service, self.region)
        text = auth.string_to_sign(request, auth.canonical_request(request))
        return (
            f"AWS4-HMAC-SHA256 Credential={auth.scope(request)}, SignedHeaders={';'.join(names)}, "
            f"Signature={auth.signature(text, request)}"
        )


# With the credentials of `environment`.
_ENV = environment("")
OURS = Signer(_ENV["AWS_ACCESS_KEY_ID"], _ENV["AWS_SECRET_ACCESS_KEY"], "dynamodb", REGION)


def signed_headers(call: Call) -> list[str]:
    """The names of the headers that the signature covers."""
    header = AUTHORIZATION.fullmatch(call.header("authorization"))
    assert header, call.header("authorization")
    return header["signed"].split(";")

"""Start the stub endpoint, pin it to a core, and point the environment at it."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from proof.bench import cores, stub_data
from proof.bench.stub import LOOPBACK, WRITTEN

# The length of a Lambda role's token, which is signed with every call.
TOKEN_CHARS = 848


@dataclass(frozen=True)
class Stub:
    url: str
    authority: str  # file of the certificate authority
    pinned: str

    def environment(self) -> dict[str, str]:
        """The environment of a Lambda function, with the stub in the place of AWS."""
        return {
            **stub_data.SETTINGS.to_env(),
            "AWS_ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            "AWS_SESSION_TOKEN": ("IQoJb3JpZ2luX2VjE" * TOKEN_CHARS)[:TOKEN_CHARS],
            "AWS_REGION": stub_data.REGION,
            "AWS_DEFAULT_REGION": stub_data.REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            **{f"AWS_ENDPOINT_URL_{each}": self.url for each in ("DYNAMODB", "SQS")},
            "AWS_CA_BUNDLE": self.authority,
            "POWERTOOLS_SERVICE_NAME": "fanfold",
            "POWERTOOLS_METRICS_NAMESPACE": "Fanfold",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }

    def written(self) -> tuple[int, list[dict[str, Any]]]:
        """The number of entries put since the last call of these, and the latest batches."""
        report = self._report()
        return report["entries"], report["batches"]

    def operations(self) -> list[str]:
        """The latest operations since the last report."""
        found: list[str] = self._report()["operations"]
        return found

    def _report(self) -> Any:
        request = urllib.request.Request(
            self.url, data=b"{}", headers={"X-Amz-Target": WRITTEN.decode()}
        )
        context = ssl.create_default_context(cafile=self.authority)
        with urllib.request.urlopen(request, context=context) as answer:
            return json.load(answer)

    def items(self) -> tuple[int, list[dict[str, Any]]]:
        """The number of entries put, and the items of the latest batches, sorted by user."""
        entries, batches = self.written()
        puts = [
            put["PutRequest"]["Item"]
            for batch in batches
            for put in batch["RequestItems"][stub_data.SETTINGS.timelines_table]
        ]
        return entries, sorted(puts, key=lambda item: str(item["user_id"]["S"]))


@contextmanager
def stub() -> Iterator[Stub]:
    authority = trustme.CA()
    certificate = authority.issue_cert(LOOPBACK)
    with tempfile.TemporaryDirectory(prefix="fanfold-bench-") as folder:
        trusted, own = Path(folder, "authority.pem"), Path(folder, "stub.pem")
        authority.cert_pem.write_to_path(trusted)
        certificate.private_key_and_cert_chain_pem.write_to_path(own)
        command = [sys.executable, "-P", "-m", "proof.bench.stub", str(own), str(cores.STUB)]
        pinned = cores.pinned(cores.count())
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                port = int(process.stdout.readline())
                yield Stub(f"https://{LOOPBACK}:{port}", str(trusted), pinned)
            finally:
                process.stdin.close()


@contextmanager
def in_environment() -> Iterator[Stub]:
    """Start a stub for every client that this process makes from now on; keep to the other core."""
    with stub() as running:
        cores.pin(cores.CLIENT)
        os.environ.pop("AWS_PROFILE", None)
        os.environ.update(running.environment())
        yield running

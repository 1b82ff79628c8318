"""The engines that the model is compared with, each as one boto3 client on empty tables.

moto is none of them: it breaks down over many of these calls, or refuses nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from fanfold_cli.aws import LocalEndpoint
from fanfold_cli.local import engine as local_engine
from fanfold_cli.local.home import Home
from proof.model.clock import Clock
from proof.model.dynamodb.client import Client
from proof.model.dynamodb.database import Database
from tests.compat.calls import CREATIONS
from tests.lifetimes import LIFETIME_HOURS

HERE = Path(__file__).parent
CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 1}, read_timeout=30)
MODEL, MOTO, MINISTACK, DYNAMODB_LOCAL = "model", "moto", "ministack", "dynamodb-local"
ANY = "testing"
# The first fetch takes most of a minute with a near repository.
FETCH_SECONDS = 300


@cache
def client_of(engine: LocalEndpoint | None, service: str = "dynamodb") -> Any:
    """One client for all programs: making a client takes longer than most programs."""
    return boto3.client(  # type: ignore[call-overload]
        service,
        config=CONFIG,
        endpoint_url=engine and engine.url,
        aws_access_key_id=engine.access_key if engine else ANY,
        aws_secret_access_key=ANY,
    )


@contextmanager
def on_model() -> Iterator[Client]:
    """The model, with the tables of the product."""
    client = Client(Database(Clock()))
    for creation in CREATIONS.values():
        client.create_table(**creation)
    yield client


@contextmanager
def on_endpoint(engine: LocalEndpoint, tables: Iterable[str]) -> Iterator[Any]:
    """The needed tables on an engine behind HTTP; deleted afterwards."""
    client = client_of(engine)
    try:
        for name in tables:
            client.create_table(**CREATIONS[name])
        yield client
    finally:
        for name in client.list_tables()["TableNames"]:
            client.delete_table(TableName=name)


@contextmanager
def ministack(home: Path) -> Iterator[LocalEndpoint]:
    """A bare local engine, without the app; its endpoint."""
    state = local_engine.start(Home(home), lifetime_seconds=LIFETIME_HOURS * 3600, port=None)
    try:
        yield state.local_endpoint
    finally:
        local_engine.stop(Home(home), state)


@contextmanager
def dynamodb_local(directory: Path) -> Iterator[LocalEndpoint]:
    """DynamoDB Local on loopback; its endpoint. Skips if it cannot be fetched or run."""
    for tool in ("java", "mvn"):
        if shutil.which(tool) is None:
            pytest.skip(f"DynamoDB Local needs {tool}, and it is not installed")
    libraries = directory / "lib"
    fetch = ["mvn", "-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies"]
    try:
        fetched = subprocess.run(
            [*fetch, f"-DoutputDirectory={libraries}"],
            cwd=directory,
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip(f"Maven did not fetch DynamoDB Local within {FETCH_SECONDS} s")
    if fetched.returncode:
        pytest.skip(f"Maven could not fetch DynamoDB Local:\n{fetched.stdout[-600:]}")
    run = ["java", f"-Djava.library.path={libraries}", "-cp", f"{libraries}/*"]
    with subprocess.Popen(
        [*run, str(HERE / "Loopback.java")],
        cwd=directory,
        env={**os.environ, "DDB_LOCAL_TELEMETRY": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            port = next((line.split()[1] for line in lines if line.startswith("port ")), None)
            if port is None:
                pytest.skip("DynamoDB Local did not start with this Java")
            yield LocalEndpoint(f"http://127.0.0.1:{port}", ANY)
        finally:
            process.stdin.close()  # it ends with its input, even if this process dies
            process.wait(timeout=30)

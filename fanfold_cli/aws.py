"""Clients of AWS or of a local engine: region, credentials, timeouts, notices of slow calls."""

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound
from botocore.utils import JSONFileCache

import fanfold.aws.boto  # noqa: F401 - makes lost connections count as transient
from fanfold.errors import FanfoldError
from fanfold_cli.progress import waiting_for
from fanfold_cli.terminal import ExpectedError, failing_with

LOCAL_REGION = "us-east-1"
# The engine uses this account id unless the access key is itself an account id.
LOCAL_ACCOUNT = "000000000000"
# The engine checks the access key id, but no signature.
LOCAL_SECRET = "test"

# By default, botocore retries for many seconds; an operator should see a failure soon.
ATTEMPTS = 3
READ_SECONDS = 65
CONFIG = Config(connect_timeout=5, max_pool_connections=32)
# Calls over loopback must not go to a proxy that the environment names.
LOCAL_CONFIG = CONFIG.merge(Config(proxies={}))


# How a call of AWS, of the product or of a command may fail.
EXPECTED = (ClientError, BotoCoreError, FanfoldError, ExpectedError)


@dataclass(frozen=True)
class LocalEndpoint:
    """The address of a local engine, and the access key id that it requires."""

    url: str
    access_key: str


def client(
    service: str,
    endpoint: LocalEndpoint | None,
    region: str | None,
    attempts: int = ATTEMPTS,
    read_seconds: int = READ_SECONDS,
) -> Any:
    """Return a boto3 client of the local engine at `endpoint`, or of AWS if it is None.

    Raises `ExpectedError` if AWS is to be called without credentials.
    """
    retries = Config(
        retries={"mode": "standard", "total_max_attempts": attempts}, read_timeout=read_seconds
    )
    if endpoint is None:
        check_credentials()
        return _session().client(  # type: ignore[call-overload]
            service, region_name=region, config=CONFIG.merge(retries)
        )
    return _local_session().client(  # type: ignore[call-overload]
        service,
        endpoint_url=endpoint.url,
        region_name=region or LOCAL_REGION,
        config=LOCAL_CONFIG.merge(retries),
        aws_access_key_id=endpoint.access_key,
        aws_secret_access_key=LOCAL_SECRET,
    )


def check_credentials() -> None:
    """Raise `ExpectedError` if neither the environment nor a profile has AWS credentials.

    A role with MFA asks for its code here, before a progress notice could hide the question. Later
    calls do not ask.
    """
    credentials = _session().get_credentials()
    if credentials is None:
        raise ExpectedError(
            "There are no AWS credentials: set AWS_PROFILE to a profile that has some (`aws "
            "configure` or `aws configure sso` makes one), or set AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY."
        )
    with failing_with("AWS gives no credentials"):
        credentials.get_frozen_credentials()


class _RoleCache(JSONFileCache):
    """Credentials of roles, in the AWS CLI's cache: one MFA code lasts an hour.

    The commands that the console starts use the same cache, so they need no code.
    """

    def __init__(self) -> None:
        # Without a home, `Path` would raise an error.
        super().__init__(os.path.expanduser("~/.aws/cli/cache"))  # noqa: PTH111

    def __setitem__(self, key: str, value: Any) -> None:
        with suppress(OSError):  # if they cannot be stored, each process asks
            super().__setitem__(key, value)


class _Telling:
    """Makes a client say which call it waits for, if the call is slow."""

    def _make_api_call(self, operation: str, parameters: Any) -> Any:
        service = self.meta.service_model.service_id  # type: ignore[attr-defined]
        with waiting_for(f"{service} ({operation})"):
            return super()._make_api_call(operation, parameters)  # type: ignore[misc]


def _let_tell(session: boto3.Session) -> boto3.Session:
    def add(base_classes: list[type], **_: Any) -> None:
        base_classes.insert(0, _Telling)

    session.events.register("creating-client-class", add)
    return session


@cache
def _session() -> boto3.Session:
    return _let_tell(own_session())


def own_session() -> boto3.Session:
    """A session with the user's environment and profile; raises `ExpectedError`."""
    own = botocore.session.Session()
    try:
        roles: Any = own.get_component("credential_provider").get_provider("assume-role")
        roles.cache = _RoleCache()
        return boto3.Session(botocore_session=own)
    except ProfileNotFound as error:
        raise ExpectedError(
            f"{error}: AWS_PROFILE names it. `aws configure list-profiles` lists those that exist."
        ) from error


@cache
def _local_session() -> boto3.Session:
    # The user's profile and configuration files must not redirect a local call.
    none, nowhere = (None, None, None, None), (None, None, os.devnull, None)
    ignored = {"profile": none, "config_file": nowhere, "credentials_file": nowhere}
    own = botocore.session.Session(session_vars=ignored)
    return _let_tell(boto3.Session(botocore_session=own))


def environment_without_aws() -> dict[str, str]:
    """The environment of this process, without any way to a real account."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def local_environment(endpoint: LocalEndpoint) -> dict[str, str]:
    """Environment variables for programs that use the engine and must not reach a real account."""
    return {
        **environment_without_aws(),
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_ACCESS_KEY_ID": endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": LOCAL_SECRET,
        "AWS_REGION": LOCAL_REGION,
        "AWS_DEFAULT_REGION": LOCAL_REGION,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }

"""How this command line talks to AWS or to a local engine: region, test credentials, clients."""

import os
from functools import cache
from typing import Any

import boto3
import botocore.session
from botocore.config import Config

LOCAL_REGION = "us-east-1"
# The account that the engine answers for when the access key is not an account number.
LOCAL_ACCOUNT = "000000000000"
LOCAL_CREDENTIALS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}

# A command line reports a failure itself, and soon; botocore's default tries for many seconds.
ATTEMPTS = 3
CONFIG = Config(connect_timeout=5, read_timeout=65, max_pool_connections=32)
# The engine is on loopback, where a proxy of the surroundings has no say.
LOCAL_CONFIG = CONFIG.merge(Config(proxies={}))


def client(service: str, endpoint: str | None, region: str | None, attempts: int = ATTEMPTS) -> Any:
    """Return a client of the local engine at `endpoint`, or of AWS when there is none."""
    retries = Config(retries={"mode": "standard", "total_max_attempts": attempts})
    if endpoint is None:
        return boto3.client(  # type: ignore[call-overload]
            service, region_name=region, config=CONFIG.merge(retries)
        )
    return _local_session().client(  # type: ignore[call-overload]
        service,
        endpoint_url=endpoint,
        region_name=region or LOCAL_REGION,
        config=LOCAL_CONFIG.merge(retries),
        **LOCAL_CREDENTIALS,
    )


@cache
def _local_session() -> boto3.Session:
    # Neither the user's profile nor their configuration files may turn a local call elsewhere.
    no_files = {
        "profile": (None, None, None, None),
        "config_file": (None, None, os.devnull, None),
        "credentials_file": (None, None, os.devnull, None),
    }
    return boto3.Session(botocore_session=botocore.session.Session(session_vars=no_files))


def local_environment(endpoint: str) -> dict[str, str]:
    """The environment for programs that work on the engine and must never reach a real account."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": LOCAL_CREDENTIALS["aws_access_key_id"],
        "AWS_SECRET_ACCESS_KEY": LOCAL_CREDENTIALS["aws_secret_access_key"],
        "AWS_REGION": LOCAL_REGION,
        "AWS_DEFAULT_REGION": LOCAL_REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }

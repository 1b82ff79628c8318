"""What libcurl's client reads in the environment: region, endpoint, credentials, CA bundle."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

# Regions whose names begin so do not lie under amazonaws.com.
SUFFIXES = {"cn-": "amazonaws.com.cn", "eusc-": "amazonaws.eu"}
# Partitions whose addresses are not public.
UNKNOWN_PARTITIONS = ("us-iso", "eu-iso")
# boto3 obeys these and libcurl's client does not. It refuses to start rather than silently call
# another address than was asked for.
UNSUPPORTED = (
    "AWS_USE_FIPS_ENDPOINT",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
)
# Variables that libcurl and OpenSSL read by themselves. They name a file for the secrets of every
# connection, and files that change how certificates are checked, or are programs.
OF_LIBRARIES = (
    "SSLKEYLOGFILE",
    "OPENSSL_CONF",
    "OPENSSL_CONF_INCLUDE",
    "OPENSSL_MODULES",
    "OPENSSL_ENGINES",
)


class Unconfigured(Exception):
    """The environment lacks what a call needs, or asks for what this client does not support."""


@dataclass(frozen=True)
class Credentials:
    """What requests are signed with. Those of a Lambda role come with a token."""

    access_key: str
    secret_key: str
    token: str = ""

    @staticmethod
    def from_env(env: Mapping[str, str]) -> Credentials:
        """Raises `Unconfigured` if there are none."""
        key, secret = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
        if not (key and secret):
            raise Unconfigured(
                "There are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, as "
                "Lambda does."
            )
        return Credentials(key, secret, env.get("AWS_SESSION_TOKEN", ""))


def region(env: Mapping[str, str]) -> str:
    """The region that Lambda, or a developer, sets; raises `Unconfigured` if there is none."""
    found = env.get("AWS_DEFAULT_REGION") or env.get("AWS_REGION")
    if not found:
        raise Unconfigured("There is no region: set AWS_REGION, as Lambda does.")
    return found


def endpoint(service: str, env: Mapping[str, str]) -> str:
    """The URL of a service: the one that the environment names, or that of the region.

    Raises `Unconfigured` if the environment asks for another kind of endpoint.
    """
    for name in UNSUPPORTED:
        if env.get(name, "").lower() == "true":
            raise Unconfigured(f"{name} is not obeyed here; deploy with -c transport=boto3.")
    own = env.get(f"AWS_ENDPOINT_URL_{service.upper()}") or env.get("AWS_ENDPOINT_URL")
    if own:
        return own
    where = region(env)
    if where.startswith(UNKNOWN_PARTITIONS):
        raise Unconfigured(f"The addresses of {where} are not known here; use transport=boto3.")
    suffix = next((s for prefix, s in SUFFIXES.items() if where.startswith(prefix)), None)
    return f"https://{service}.{where}.{suffix or 'amazonaws.com'}"


def ca_bundle(env: Mapping[str, str]) -> str:
    """The file of certificates that servers are checked against."""
    if own := env.get("AWS_CA_BUNDLE"):
        return own
    # certifi's file lies next to its module. Importing that would cost 8 ms of a cold start.
    spec = find_spec("certifi")
    assert spec is not None
    assert spec.origin is not None
    return os.path.join(os.path.dirname(spec.origin), "cacert.pem")  # noqa: PTH118, PTH120

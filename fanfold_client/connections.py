"""Connections with the proxy and the certificates of this machine."""

import os
import ssl
from contextlib import suppress
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

# Connections kept for each host: the most threads of a default ThreadPoolExecutor. urllib3 keeps
# one, and would reconnect for most requests.
CONNECTIONS = 32
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(url: str) -> bool:
    """Whether an address is on this machine; False for what is no address."""
    with suppress(ValueError):
        return urlsplit(url).hostname in LOOPBACK
    return False


def pool_for(url: str) -> urllib3.PoolManager:
    """Connections to this address, by the environment's proxy if it applies.

    urllib3 itself reads none of these variables.
    """
    parts = urlsplit(url)
    host, proxy = parts.hostname or "", getproxies().get(parts.scheme)
    if proxy is None or host in LOOPBACK or proxy_bypass(host):
        is_plain = parts.scheme == "http"
        context = None if is_plain else _certificates()
        return urllib3.PoolManager(maxsize=CONNECTIONS, ssl_context=context)
    user = urllib3.util.parse_url(proxy).auth
    headers = urllib3.make_headers(proxy_basic_auth=unquote(user)) if user else None
    return urllib3.ProxyManager(
        proxy, maxsize=CONNECTIONS, ssl_context=_certificates(), proxy_headers=headers
    )


def _certificates() -> ssl.SSLContext:
    """The system's, botocore's (a Python for macOS may have none), and those of a company."""
    context = ssl.create_default_context()
    with suppress(ImportError):  # in a program that does not use AWS
        # Imported here, because it is slow and the local engine needs none.
        from botocore.httpsession import get_cert_path

        context.load_verify_locations(get_cert_path(True))
    if company := os.environ.get("AWS_CA_BUNDLE"):
        context.load_verify_locations(company)
    return context

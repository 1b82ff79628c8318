"""Variables that steer libcurl and OpenSSL in other programs do not reach our calls.

Each test starts a real process: the libraries read most of these once, when they are loaded.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.wire.conftest import Certificates, certificates, environment
from tests.wire.server import LOOPBACK, Server
from tests.wire.signatures import OURS

pytestmark = pytest.mark.network
ROOT = Path(__file__).parents[3]
TIMEOUT_SECONDS = 60
# Makes a call and prints what went wrong, if anything did.
SCRIPT = """
import os
from fanfold.aws import curl
assert not os.environ.keys() & {"SSLKEYLOGFILE", "OPENSSL_CONF"}, "what it starts would have them"
try:
    curl.dynamodb(attempts=1).get_item(TableName="t", Key={})
except Exception as error:
    print(type(error).__name__, error)
"""
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


def call(server: Server, tls: Certificates, **hostile: str) -> str:
    """Call the server from a process with this environment; what went wrong."""
    env = environment(server.url, AWS_CA_BUNDLE=tls.authority, PYTHONPATH=str(ROOT), **hostile)
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert not done.stderr
    return done.stdout.strip()


@pytest.fixture(params=["http", "https"])
def aws(request: pytest.FixtureRequest, serve: Callable[..., Server], tls: Certificates) -> Server:
    """A server in AWS's place, with and without TLS."""
    return serve(context=tls.context if request.param == "https" else None)


def test_no_proxy_gets_a_call(aws: Server, serve: Callable[..., Server], tls: Certificates) -> None:
    """A table is reached by its endpoint, in a VPC too."""
    proxy = serve()
    assert not call(aws, tls, **dict.fromkeys(PROXIES, proxy.url))
    assert not call(aws, tls, **dict.fromkeys(PROXIES, "socks5h://127.0.0.1:1"))
    assert (len(aws.calls), proxy.opened) == (2, 0)


@pytest.mark.parametrize("name", ["CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_only_the_configured_authorities_are_trusted(
    name: str, serve: Callable[..., Server], tls: Certificates, tmp_path: Path
) -> None:
    stranger = certificates(tmp_path, LOOPBACK)
    trusted = str(tmp_path) if name == "SSL_CERT_DIR" else stranger.authority
    if name == "SSL_CERT_DIR":
        if not shutil.which("openssl"):
            pytest.skip("openssl names the files of such a directory, and is not here.")
        subprocess.run(["openssl", "rehash", str(tmp_path)], check=True)
    impostor = serve(context=stranger.context)
    assert "certificate" in call(impostor, tls, **{name: trusted})
    assert not impostor.calls
    good = serve(context=tls.context)
    assert not call(good, tls, **{name: trusted})
    assert len(good.calls) == 1


def test_files_of_a_home_directory_change_nothing(
    aws: Server, serve: Callable[..., Server], tls: Certificates, tmp_path: Path
) -> None:
    proxy = serve()
    (tmp_path / ".curlrc").write_text(f'proxy = "{proxy.url}"\ninsecure\nnetrc\n')
    (tmp_path / ".netrc").write_text(f"machine {LOOPBACK} login stranger password secret\n")
    home = str(tmp_path)
    assert not call(
        aws, tls, HOME=home, CURL_HOME=home, XDG_CONFIG_HOME=home, NETRC=f"{home}/.netrc"
    )
    (made,) = aws.calls
    assert OURS.signed(made)
    assert not proxy.opened


def test_no_secrets_of_tls_are_written_down(
    serve: Callable[..., Server], tls: Certificates, tmp_path: Path
) -> None:
    log = tmp_path / "secrets"
    aws = serve(context=tls.context)
    assert not call(aws, tls, SSLKEYLOGFILE=str(log))
    assert len(aws.calls) == 1
    assert not log.exists()


# With it, OpenSSL finds none of its own algorithms, whichever name a program loads it by.
CONFIGURATION = """
openssl_conf = init
libcurl = init
[init]
alg_section = algorithms
[algorithms]
default_properties = fips=yes
"""


def test_a_configuration_of_openssl_does_not_count(
    serve: Callable[..., Server], tls: Certificates, tmp_path: Path
) -> None:
    """The libcurl of today's wheel reads none by itself; another build might."""
    file = tmp_path / "openssl.cnf"
    file.write_text(CONFIGURATION)
    aws = serve(context=tls.context)
    hostile = {"OPENSSL_CONF": str(file), "OPENSSL_CONF_INCLUDE": str(tmp_path)}
    hostile |= {"OPENSSL_MODULES": str(tmp_path), "OPENSSL_ENGINES": str(tmp_path)}
    assert not call(aws, tls, **hostile)
    assert len(aws.calls) == 1

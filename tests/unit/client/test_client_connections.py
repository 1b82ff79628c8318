"""Calls of the HTTP API go by the company's proxy, if there is one, but not those on loopback."""

import pytest
import urllib3

from fanfold_client import pool_for

API = "https://abc.execute-api.eu-west-1.amazonaws.com"


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_of_the_environment_is_used_with_the_name_and_password_of_its_address(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pool_for(API).proxy is None
    monkeypatch.setenv(variable, "http://user:p%40ss@proxy.example.com:3128")
    pool = pool_for(API)
    assert isinstance(pool, urllib3.ProxyManager)
    assert pool.proxy is not None
    assert (pool.proxy.host, pool.proxy.port) == ("proxy.example.com", 3128)
    assert pool.proxy_headers == {"proxy-authorization": "Basic dXNlcjpwQHNz"}


def test_a_host_of_no_proxy_and_a_local_engine_are_called_directly(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://proxy.example.com:3128")
    for host in ("127.0.0.1", "localhost", "[::1]"):
        assert pool_for(f"http://{host}:4566/_aws").proxy is None
    monkeypatch.setenv("NO_PROXY", ".amazonaws.com")
    assert pool_for(API).proxy is None

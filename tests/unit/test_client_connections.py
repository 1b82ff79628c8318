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


def test_without_a_proxy_the_api_is_called_directly() -> None:
    assert pool_for(API).proxy is None


@pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
def test_a_proxy_of_the_environment_is_used(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "http://proxy.example.com:3128")
    pool = pool_for(API)
    assert isinstance(pool, urllib3.ProxyManager)
    assert pool.proxy is not None
    assert pool.proxy.url == "http://proxy.example.com:3128"


@pytest.mark.parametrize("host", ["127.0.0.1:4566", "localhost:4566", "[::1]:4566"])
def test_a_local_engine_is_called_directly_whatever_the_environment_names(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example.com:3128")
    assert pool_for(f"http://{host}/_aws").proxy is None


def test_a_host_of_no_proxy_is_called_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.com:3128")
    monkeypatch.setenv("NO_PROXY", ".amazonaws.com")
    assert pool_for(API).proxy is None


def test_a_proxy_gets_the_name_and_password_of_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://user:p%40ss@proxy.example.com:3128")
    pool = pool_for(API)
    assert isinstance(pool, urllib3.ProxyManager)
    assert pool.proxy_headers == {"proxy-authorization": "Basic dXNlcjpwQHNz"}

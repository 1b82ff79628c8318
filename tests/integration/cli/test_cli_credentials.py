"""Credentials of AWS: a role with MFA asks once, before anything is shown that could hide it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import AssumeRoleCredentialFetcher, AssumeRoleProvider
from moto import mock_aws

from fanfold_cli import aws, progress
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from tests.service import error

CONFIG = """
[profile base]
region = us-east-1
[profile operator]
region = us-east-1
source_profile = base
role_arn = arn:aws:iam::123456789012:role/Operator
mfa_serial = arn:aws:iam::123456789012:mfa/ann
"""
KEYS = """
[base]
aws_access_key_id = AKIAIOSFODNN7EXAMPLE
aws_secret_access_key = wJalrXUtnFEMI
"""


@pytest.fixture
def prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The questions for a code of MFA, of a user whose profile is a role with MFA."""
    asked: list[str] = []

    def prompt(question: str) -> str:
        assert not progress._shown.locked(), "a spinner would wipe the question"
        asked.append(question)
        return "123456"

    with mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            monkeypatch.delenv(name, raising=False)
        for name, content in (("config", CONFIG), ("credentials", KEYS)):
            (tmp_path / name).write_text(content)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
        monkeypatch.setenv("AWS_PROFILE", "operator")
        monkeypatch.delenv("AWS_REGION", raising=False)
        plain = AssumeRoleProvider.__init__

        def init(provider: Any, *given: Any, **named: Any) -> None:
            plain(provider, *given, **named)
            provider._prompter = lambda question: prompt(question)

        monkeypatch.setattr(AssumeRoleProvider, "__init__", init)
        aws._session.cache_clear()
        yield asked
    aws._session.cache_clear()


def test_a_role_with_mfa_asks_for_its_code_before_any_notice(prompts: list[str]) -> None:
    with pytest.raises(ExpectedError, match=r"The stack Fanfold-prod in .* cannot be read"):
        Deployment.on_aws("Fanfold-prod")
    assert prompts == ["Enter MFA code for arn:aws:iam::123456789012:mfa/ann: "]


def test_one_code_serves_the_commands_that_follow_and_the_console_runs(
    prompts: list[str], tmp_path: Path
) -> None:
    for _ in range(3):  # each command is a process of its own
        aws._session.cache_clear()
        caller = Deployment("us-east-1", None, {}).caller()
        assert caller.startswith("assumed-role/Operator/")
    assert len(prompts) == 1
    (kept,) = (tmp_path / ".aws" / "cli" / "cache").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


def test_where_credentials_cannot_be_kept_each_command_asks(
    prompts: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".aws").touch()
    for _ in range(2):
        aws._session.cache_clear()
        aws.check_credentials()
    assert len(prompts) == 2


def test_a_role_that_aws_refuses_is_a_sentence(
    prompts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fetcher: Any) -> Any:
        raise error("AccessDenied", 403)

    monkeypatch.setattr(AssumeRoleCredentialFetcher, "_get_credentials", refuse)
    with pytest.raises(ExpectedError, match=r"AWS gives no credentials: .*AccessDenied"):
        aws.check_credentials()
    assert prompts == []

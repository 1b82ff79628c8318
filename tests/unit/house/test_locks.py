"""The locks: complete, in step with each other, and free of addresses."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RUN_TIME, WITH_BOTO3 = "requirements.txt", "requirements-boto3.txt"
DEVELOPMENT, UV = "requirements-dev.txt", "requirements-uv.txt"
NPM = (
    "package-lock.json",
    "clients/typescript/package-lock.json",
    "tests/infra/second_judge/package-lock.json",
)
LOCKS = (RUN_TIME, WITH_BOTO3, DEVELOPMENT, UV, *NPM)
# npm's locks say where a package asks for donations; nothing is fetched from there.
ASKS_FOR_MONEY = re.compile(r'"funding": (?:"[^"]*"|\{[^}]*\}|\[[^]]*\])')
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)


def read(name: str) -> str:
    return (ROOT / name).read_text()


def pins(lock: str) -> set[tuple[str, ...]]:
    return set(PIN.findall(read(lock)))


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_names_no_registry_and_no_machine(lock: str) -> None:
    text = ASKS_FOR_MONEY.sub("", read(lock))
    assert re.findall(r"(?:https?|file)://\S+|--(?:extra-)?index-url|--find-links", text) == []
    assert re.findall(r"(?:^|[\s'\"=])/[a-z]\S*", text, re.MULTILINE) == []


@pytest.mark.parametrize("lock", [RUN_TIME, WITH_BOTO3, DEVELOPMENT, UV])
def test_every_locked_package_has_one_version_and_its_hashes(lock: str) -> None:
    entries = re.split(r"\n(?=[a-z0-9])", read(lock))[1:]
    assert len(entries) == len(pins(lock)) > 0
    assert all("--hash=sha256:" in entry for entry in entries)


def test_tests_run_the_versions_that_lambda_runs_and_builds_the_locked_backend() -> None:
    assert pins(RUN_TIME) <= pins(WITH_BOTO3) <= pins(DEVELOPMENT)
    assert pins(UV) <= pins(DEVELOPMENT)
    (requirement,) = re.findall(r'^requires = \["(.*)"\]$', read("pyproject.toml"), re.MULTILINE)
    assert tuple(requirement.split("==")) in {pin[:2] for pin in pins(DEVELOPMENT)}


def test_the_cdk_command_line_is_an_exact_2x() -> None:
    # npm also has an aws-cdk 3.0.0. It was published by accident and is not the successor of 2.x.
    version = json.loads(read("package.json"))["devDependencies"]["aws-cdk"]
    assert re.fullmatch(r"2\.\d+\.\d+", version)
    locked = json.loads(read("package-lock.json"))["packages"]["node_modules/aws-cdk"]
    assert locked["version"] == version
    assert locked["integrity"].startswith("sha512-")

"""Importing a function loads exactly the pinned packages, for which a cold start waits."""

import json
import os
import subprocess
import sys
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path

import pytest

from fanfold.names import BOTO3, LIBCURL
from fanfold.settings import Settings

ROOT = Path(__file__).parents[2]

# Powertools' logger imports the next two, and tries to find botocore.
POWERTOOLS = {"aws_lambda_powertools", "jmespath", "typing_extensions", "botocore"}
OF_LIBCURL = {"pycurl"}
OF_BOTO3 = {"boto3", "botocore", "certifi", "dateutil", "jmespath", "s3transfer", "six", "urllib3"}

# The installed packages of each function, beside Powertools and its transport's.
OWN: dict[str, set[str]] = {
    "api": {"cachetools"},
    "deliver": set(),
    "plan": {"cachetools"},
    "relate": {"cachetools"},
    "sweep": set(),
    "timeline": {"cachetools"},
}
LOADS = {
    (door, transport): POWERTOOLS | library | own
    for door, own in OWN.items()
    for transport, library in ((LIBCURL, OF_LIBCURL), (BOTO3, OF_BOTO3))
}

# Prints the modules that importing a function adds: those of installed packages, and all.
SCRIPT = """
import importlib, json, sys, sysconfig
before = set(sys.modules)
importlib.import_module(sys.argv[1])
installed = tuple({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
new = {name: module for name, module in sys.modules.items() if name not in before}
print(json.dumps([
    [name for name, module in new.items()
     if (getattr(module, "__file__", None) or "").startswith(installed)],
    list(new),
]))
"""


def loaded(door: str, transport: str) -> frozenset[str]:
    """Modules of installed packages that a new process loads with the function."""
    return _modules(door, transport)[0]


@cache
def _modules(door: str, transport: str) -> tuple[frozenset[str], frozenset[str]]:
    required = {
        each.name.upper(): each.name for each in fields(Settings) if each.default is MISSING
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, f"functions.{door}"],
        env={**os.environ, **required, "TRANSPORT": transport},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    installed, every = json.loads(done.stdout)
    return frozenset(installed), frozenset(every)


def packages(modules: frozenset[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_every_function_is_pinned() -> None:
    modules = {path.stem for path in (ROOT / "functions").glob("[!_]*.py")}
    assert OWN.keys() == modules


@pytest.mark.parametrize(("door", "transport"), LOADS)
def test_a_function_loads_exactly_the_pinned_packages(door: str, transport: str) -> None:
    found, pinned = packages(loaded(door, transport)), LOADS[door, transport]
    more, less = sorted(found - pinned), sorted(pinned - found)
    assert not more, f"functions.{door} on {transport} now loads {', '.join(more)} at its start."
    assert not less, f"functions.{door} on {transport} loads {', '.join(less)} no more; unpin it."


@pytest.mark.parametrize("door", OWN)
def test_no_function_loads_a_module_below_botocore(door: str) -> None:
    # `botocore` itself takes half a millisecond: Powertools looks for its user agent.
    below = [name for name in loaded(door, LIBCURL) if name.startswith("botocore.")]
    assert not below, f"functions.{door} now loads {', '.join(sorted(below))} at its start."


def test_deliver_loads_no_planning_no_threads_and_nothing_that_is_rarely_called() -> None:
    # A class of ours takes half a millisecond of a cold start, too.
    _, found = _modules("deliver", LIBCURL)
    assert "fanfold.fanout.deliver" in found
    assert not found & {
        "fanfold.fanout.plan",
        "fanfold.follows.levels",
        "fanfold.aws.dead_letters",
        "concurrent.futures",
        "fanfold.aws.boto",
        "fanfold.aws.threads",
    }


def test_query_loads_no_more_of_channels_than_their_head_before_there_are_any() -> None:
    _, found = _modules("timeline", LIBCURL)
    assert {name for name in found if "channel" in name} == {
        "fanfold.channels",
        "fanfold.channels.head",
        "fanfold.channels.head_table",
        "fanfold.channels.known_head",
        "fanfold.timeline.channel_reading",
    }


def test_deliver_loads_nothing_of_channels() -> None:
    _, found = _modules("deliver", LIBCURL)
    assert "fanfold.fanout.deliver" in found
    assert [name for name in found if "channel" in name] == []


def test_query_loads_no_feeds_before_one_is_read() -> None:
    _, found = _modules("timeline", LIBCURL)
    assert "fanfold.timeline.paging" in found
    assert not found & {"fanfold.timeline.feed", "fanfold.timeline.outbox", "fanfold.aws.boto"}


@pytest.mark.parametrize(("door", "transport"), LOADS)
def test_no_function_loads_the_documents_or_their_types(door: str, transport: str) -> None:
    _, found = _modules(door, transport)
    assert "fanfold.contract" in found
    assert not [name for name in found if name.startswith(("fanfold.answers", "contract_docs"))]

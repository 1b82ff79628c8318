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

ROOT = Path(__file__).parents[3]

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


@cache
def loaded(door: str, transport: str) -> tuple[frozenset[str], frozenset[str]]:
    """What a new process loads with the function: modules of installed packages, and all."""
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


@pytest.mark.parametrize(("door", "transport"), LOADS)
def test_a_function_loads_exactly_the_pinned_packages(door: str, transport: str) -> None:
    installed, every = loaded(door, transport)
    found, pinned = {name.partition(".")[0] for name in installed}, LOADS[door, transport]
    more, less = sorted(found - pinned), sorted(pinned - found)
    assert not more, f"functions.{door} on {transport} now loads {', '.join(more)} at its start."
    assert not less, f"functions.{door} on {transport} loads {', '.join(less)} no more; unpin it."
    if transport == LIBCURL:
        # `botocore` itself takes half a millisecond: Powertools looks for its user agent.
        assert [name for name in installed if name.startswith("botocore.")] == []
    assert "fanfold.contract" in every
    documents = ("fanfold.answers", "tools.contract_docs")
    assert [name for name in every if name.startswith(documents)] == []
    assert OWN.keys() == {path.stem for path in (ROOT / "functions").glob("[!_]*.py")}


def test_deliver_loads_no_planning_no_channels_no_threads_and_nothing_rarely_called() -> None:
    # A class of ours takes half a millisecond of a cold start, too.
    _, found = loaded("deliver", LIBCURL)
    assert "fanfold.fanout.deliver" in found
    assert not found & {
        "fanfold.fanout.plan",
        "fanfold.follows.levels",
        "fanfold.aws.dead_letters",
        "concurrent.futures",
        "fanfold.aws.boto",
        "fanfold.aws.threads",
    }
    assert [name for name in found if "channel" in name] == []


def test_timeline_loads_no_feeds_before_one_is_read_and_of_channels_no_more_than_their_head() -> (
    None
):
    _, found = loaded("timeline", LIBCURL)
    assert "fanfold.timeline.paging" in found
    assert not found & {"fanfold.timeline.feed", "fanfold.timeline.outbox", "fanfold.aws.boto"}
    assert {name for name in found if "channel" in name} == {
        "fanfold.channels",
        "fanfold.channels.head",
        "fanfold.channels.head_table",
        "fanfold.channels.known_head",
        "fanfold.channels.reading",
    }

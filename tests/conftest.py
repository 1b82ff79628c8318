"""The environment of every test, set before the product is imported: no test can reach AWS."""

import os
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from fanfold import clock

# Remove the developer's own AWS settings.
for name in [name for name in os.environ if name.startswith(("AWS_ENDPOINT_URL", "POWERTOOLS_"))]:
    del os.environ[name]
for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "FANFOLD_HOME"):
    os.environ.pop(name, None)
os.environ.update(
    AWS_ACCESS_KEY_ID="testing",
    AWS_SECRET_ACCESS_KEY="testing",
    AWS_REGION="eu-central-1",
    AWS_DEFAULT_REGION="eu-central-1",
    AWS_CONFIG_FILE=os.devnull,
    AWS_SHARED_CREDENTIALS_FILE=os.devnull,
    AWS_EC2_METADATA_DISABLED="true",
    POWERTOOLS_SERVICE_NAME="fanfold",
    POWERTOOLS_METRICS_NAMESPACE="Fanfold",
    POWERTOOLS_TRACE_DISABLED="true",
    # Otherwise Powertools hides its lines from pytest's log handler.
    POWERTOOLS_LOG_DEDUPLICATION_DISABLED="true",
)

# In a container, the user may have no home, where the CDK and uv keep packages otherwise.
if not os.access(Path("~").expanduser(), os.W_OK):
    os.environ.update(JSII_RUNTIME_PACKAGE_CACHE="disabled", UV_NO_CACHE="true")

# No deadline for an example: the machine may be busy. And the same examples in every run, so that a
# change is judged by what it changes; `make verify` draws new ones for the doors.
settings.register_profile("fanfold", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("fanfold")
# Of `make test`; `make check` tries each property with all of them.
settings.register_profile("few", settings.default, max_examples=30)

TESTS = Path(__file__).parent
WITHOUT_SOCKETS = {"unit", "integration", "simulation", "aws_model", "compat", "doors"}
MODEL, MOTO, DYNAMODB_LOCAL = "model", "moto", "dynamodb-local"
# What `make check` runs and `make test` leaves out.
THOROUGH = {"bench", "compat", "wheel"}
# Of fewer simulated runs, nobody needs to know which states they have reached.
MANY_SEEDS = 100
# What one test marked `slow` or `speed` may take: the longest, of channels, took 25 minutes on a
# busy machine.
LONG_SECONDS = 3_600
REAL_CLOCK = {name: value for name, value in vars(clock).items() if callable(value)}
# The tests of each of these folders share an engine or templates, and so one process.
IN_ONE_PROCESS = {"e2e", "infra", "wheel"}
# Dear tests without fixtures of their module: each goes to whichever process is free.
SINGLE = {"simulation"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """What answers DynamoDB's calls in tests/integration.

    The model answers those of libcurl, which is deployed; the other engines those of boto3.
    """
    parser.addoption("--engine", choices=[MODEL, MOTO, DYNAMODB_LOCAL], default=MODEL)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `make test` leaves out whole."""
    leaves_out = config.option.markexpr.startswith("not (thorough")
    return True if leaves_out and collection_path in {TESTS / each for each in THOROUGH} else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder."""
    without_sockets = WITHOUT_SOCKETS
    if config.getoption("engine") == DYNAMODB_LOCAL:
        without_sockets = WITHOUT_SOCKETS - {"integration"}
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in without_sockets and item.get_closest_marker("network") is None:
            item.add_marker(pytest.mark.disable_socket)
        if folder in THOROUGH:
            item.add_marker(pytest.mark.thorough)
        if item.get_closest_marker("slow") or item.get_closest_marker("speed"):
            item.add_marker(pytest.mark.timeout(LONG_SECONDS))


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Hand out modules, and whole folders where tests share what is slow to set up."""

    def _split_scope(self, nodeid: str) -> str:
        folder = nodeid.split("/")[1]
        if folder in IN_ONE_PROCESS:
            return folder
        return nodeid if folder in SINGLE else nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)  # so that `-p no:xdist` runs them in one process
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return _Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Let no test, and no fixture of its module, leave the product's clock replaced."""
    yield
    if nextitem is None or nextitem.path != item.path:
        left = [name for name, real in REAL_CLOCK.items() if getattr(clock, name) is not real]
        for name in left:
            setattr(clock, name, REAL_CLOCK[name])
        assert not left, f"{item.path.name} leaves fanfold.clock.{', '.join(left)} replaced."


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print why tests were skipped, and which states the simulated runs have reached, if any."""
    skipped = terminalreporter.stats.get("skipped", ())
    for why, number in Counter(report.longrepr[2] for report in skipped).items():
        terminalreporter.write_line(f"{number} skipped: {why.removeprefix('Skipped: ')}")
    times: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    seeds = 0
    for report in chain(*(terminalreporter.stats.get(each, ()) for each in ("passed", "failed"))):
        for name, found in report.user_properties if report.when == "call" else ():
            if name == "reached":
                times.update(found["times"])
                runs.update(found["runs"])
                seeds += found["seeds"]
    if seeds >= MANY_SEEDS:
        from proof.simulation.observed.reached import table

        terminalreporter.section(f"states reached by {seeds} simulated runs")
        terminalreporter.write_line(table(times, runs, seeds))

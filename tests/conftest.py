"""No test reaches AWS: the environment is set before anything of ours is imported."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# Whatever the user of this machine has set up stays out of the tests.
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
    # Else Powertools takes its lines away from pytest's own log handler.
    POWERTOOLS_LOG_DEDUPLICATION_DISABLED="true",
)

# A slow machine is no failure; budgets of time have their own tests.
settings.register_profile("fanfold", deadline=None, print_blob=True)
settings.load_profile("fanfold")

TESTS = Path(__file__).parent
WITHOUT_SOCKETS = ("unit", "integration", "simulation", "compat")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark by folder: tests/e2e is e2e, and unit and integration tests open no socket."""
    for item in items:
        kind = item.path.relative_to(TESTS).parts[0]
        if kind == "e2e":
            item.add_marker(pytest.mark.e2e)
        if kind in WITHOUT_SOCKETS and item.get_closest_marker("network") is None:
            item.add_marker(pytest.mark.disable_socket)

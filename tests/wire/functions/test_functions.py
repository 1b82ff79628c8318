"""The bundled functions do the main job in processes of their own, on this machine and on arm64.

Whatever they send over TLS has the right signature, and is what botocore's models allow.
"""

from __future__ import annotations

import json
import platform
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fanfold import names
from infra.settings.stages import DEV, LOCAL, Stage
from tests import pythons
from tests.wire import main_job
from tests.wire.conftest import Certificates
from tests.wire.judge import objections
from tests.wire.signatures import OURS

pytestmark = pytest.mark.network


def assert_does_the_main_job(
    python: list[str], stage: Stage, tls: Certificates, folder: Path
) -> set[tuple[str, str]]:
    """All six functions answer rightly, and sign every call; where they ran, as `Ran.places`."""
    # Here: importing the CDK takes seconds, of each process that collects tests.
    from infra import bundling

    asset, cache = folder / "asset", folder / "bytecode"
    cache.mkdir()
    bundling.bundle(asset, stage=stage)
    ran = main_job.run(python, asset, tls, cache, transport=stage.transport)
    assert {name for name, calls in ran.calls.items() if calls} == {
        function.name for function in names.FUNCTIONS
    }
    for name, calls in ran.calls.items():
        for call in calls:
            assert OURS.signed_for_its_service(call), (name, call)
            assert call.header("x-amz-security-token") == main_job.TOKEN
            headers = {key.lower(): value for key, value in call.headers}
            assert not objections(headers, call.body)
            assert ("Boto3" in call.header("user-agent")) is (stage.transport == names.BOTO3)
    followed, *published = ran.answers["api"]
    assert followed["statusCode"] == 200
    assert [each["statusCode"] for each in published] == [202, 202]
    for worker in ("relate", "plan", "deliver"):
        assert ran.answers[worker] == [{"batchItemFailures": []}]
    (page,) = ran.answers["timeline"]
    entries = {entry["ref_id"] for entry in json.loads(page["body"])["entries"]}
    assert entries == {json.loads(each["body"])["ref_id"] for each in published}
    return ran.places


@pytest.mark.thorough
@pytest.mark.parametrize(
    "transport", [names.LIBCURL, pytest.param(names.BOTO3, marks=pytest.mark.slow)]
)
def test_the_functions_do_the_main_job_on_this_machine(
    transport: str, tls: Certificates, tmp_path: Path
) -> None:
    """Each with the asset of its transport: that of libcurl has no boto3."""
    stage = replace(LOCAL, transport=transport)
    places = assert_does_the_main_job([sys.executable], stage, tls, tmp_path)
    assert (tmp_path / "asset" / "boto3").exists() is (transport == names.BOTO3)
    assert places == {(platform.machine(), platform.python_version())}


@pytest.mark.slow
def test_the_functions_do_the_main_job_on_lambdas_machine_and_python(
    tls: Certificates, tmp_path: Path
) -> None:
    fetched = tmp_path / "python"
    fetched.mkdir()
    try:
        python = pythons.emulated(fetched)
    except pythons.Missing as reason:
        pytest.skip(str(reason))
    ((machine, version),) = assert_does_the_main_job(python, DEV, tls, tmp_path)
    assert machine == "aarch64"
    assert version.startswith(f"{DEV.python_version}.")

"""The asset: wheels of the runtime, not of this machine, and our packages."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from infra import bundling
from infra.stack import FanfoldStack
from infra.stages import DEV, LOCAL, Stage

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def aws_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("asset")
    bundling.bundle(output, stage=DEV)
    return output


@pytest.mark.network
def test_the_asset_holds_wheels_for_the_runtime_of_aws(aws_asset: Path) -> None:
    (core,) = (aws_asset / "pydantic_core").glob("_pydantic_core*.so")
    assert core.name == "_pydantic_core.cpython-314-aarch64-linux-gnu.so"
    compiled = [path.name for path in aws_asset.rglob("*.so")]
    assert not [name for name in compiled if "x86_64" in name]


@pytest.mark.network
def test_the_asset_holds_our_packages_and_nothing_of_this_machine(aws_asset: Path) -> None:
    for package in bundling.PACKAGES:
        expected = {path.name for path in (ROOT / package).glob("*.py")}
        assert {path.name for path in (aws_asset / package).glob("*.py")} == expected
    assert not list(aws_asset.rglob("*.pyc"))
    assert not list(aws_asset.rglob("__pycache__"))
    assert not (aws_asset / "bin").exists()


@pytest.mark.network
def test_the_asset_is_small_enough_for_lambda(aws_asset: Path) -> None:
    files = [path for path in aws_asset.rglob("*") if path.is_file()]
    # Lambda's limit unpacked is 250 MB; half of it would already say that something slipped in.
    assert sum(path.stat().st_size for path in files) < 125_000_000


@pytest.mark.network
def test_a_door_loads_from_the_local_asset_alone(tmp_path: Path) -> None:
    bundling.bundle(tmp_path, stage=LOCAL)
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", _LOAD.format(path=str(tmp_path))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_LOAD = """
import sys
sys.path = [{path!r}, *(p for p in sys.path if 'site-packages' not in p)]
import aws_lambda_powertools, boto3, fanfold.contract, fanfold.settings
assert boto3.__file__.startswith({path!r}), boto3.__file__
"""


def test_a_missing_lock_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundling, "ROOT", tmp_path)
    with pytest.raises(bundling.BundlingError, match=r"There is no requirements\.txt"):
        bundling.bundle(tmp_path / "out", stage=DEV)


def test_a_failing_install_raises_and_copies_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "requirements.txt").write_text("no-hash==1.0\n")
    monkeypatch.setattr(bundling, "ROOT", tmp_path)
    with pytest.raises(bundling.BundlingError, match="uv cannot install"):
        bundling.UvBundling(DEV).try_bundle(str(tmp_path / "out"))
    assert not (tmp_path / "out" / "fanfold").exists()


@pytest.mark.parametrize(
    "other", [{"runtime": "python3.13"}, {"wheel_platform": "x86_64-manylinux_2_28"}]
)
def test_a_change_of_the_runtime_alone_makes_another_asset(
    make_app: Callable[..., App], other: dict[str, Any]
) -> None:
    def asset(stage: Stage) -> str:
        app = make_app()
        FanfoldStack(app, "Fanfold", stage=stage)
        template = app.synth().get_stack_by_name("Fanfold").template
        (key,) = {
            resource["Properties"]["Code"]["S3Key"]
            for resource in template["Resources"].values()
            if resource["Type"] == "AWS::Lambda::Function"
        }
        return str(key)

    assert asset(DEV) == asset(replace(DEV, name="other"))
    assert asset(DEV) != asset(replace(DEV, **other))

"""The asset: wheels for the runtime, not for this machine, and our packages."""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

from fanfold.names import BOTO3, LIBCURL
from fanfold_cli.local import assembly
from infra import bundling
from infra.stack import FanfoldStack
from infra.stages import DEV, LOCAL, Stage

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$", re.MULTILINE)
# Numbers of the ELF header.
MACHINES = {62: "x86_64", 183: "aarch64"}


@pytest.fixture(scope="module")
def aws_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("asset")
    bundling.bundle(output, stage=DEV)
    return output


@pytest.fixture(scope="module")
def boto3_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("asset")
    bundling.bundle(output, stage=replace(DEV, transport=BOTO3))
    return output


@pytest.fixture(scope="module")
def local_asset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("asset")
    bundling.bundle(output, stage=LOCAL)
    return output


def shared_objects(asset: Path) -> list[Path]:
    """Compiled modules and their libraries, such as `libcurl-330bcbb6.so.4.8.0`."""
    return [path for path in asset.rglob("*.so*") if path.is_file()]


def machine(path: Path) -> str:
    """The machine in the ELF header of a shared object."""
    header = path.read_bytes()[:20]
    assert header[:4] == b"\x7fELF", path
    return MACHINES[int.from_bytes(header[18:20], "little")]


def assert_fits(asset: Path, *, python: str, architecture: str) -> None:
    """Every compiled module is for this Python, and every shared object for this machine."""
    (compiled,) = (asset / "pycurl").glob("_pycurl*.so")
    tag = f"cpython-{python.replace('.', '')}-{architecture}-linux-gnu"
    assert compiled.name == f"_pycurl.{tag}.so"
    assert {machine(path) for path in shared_objects(asset)} == {architecture}


@pytest.mark.network
def test_the_asset_has_wheels_for_the_lambda_runtime(aws_asset: Path) -> None:
    assert_fits(aws_asset, python="3.14", architecture="aarch64")


@pytest.mark.network
@pytest.mark.skipif(sys.platform != "linux", reason="wheels of other systems hold no ELF files")
def test_the_local_asset_has_wheels_for_this_machine(local_asset: Path) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert_fits(local_asset, python=version, architecture=os.uname().machine)


@pytest.mark.network
@pytest.mark.skipif(sys.platform != "linux", reason="wheels of other systems hold no ELF files")
def test_the_check_notices_wheels_for_another_machine_or_python(
    aws_asset: Path, local_asset: Path
) -> None:
    for asset, python, architecture in (
        (local_asset, "3.14", "aarch64"),
        (aws_asset, "3.13", "aarch64"),
        (aws_asset, "3.14", "x86_64"),
    ):
        with pytest.raises(AssertionError):
            assert_fits(asset, python=python, architecture=architecture)


@pytest.mark.network
def test_each_asset_has_the_versions_of_its_lock(
    aws_asset: Path, local_asset: Path, boto3_asset: Path
) -> None:
    for asset, transport in ((aws_asset, LIBCURL), (local_asset, LIBCURL), (boto3_asset, BOTO3)):
        locked = set(PIN.findall((ROOT / bundling.LOCKS[transport]).read_text()))
        assert {"pycurl", "certifi"} <= {name for name, _ in locked}
        assert ("boto3" in {name for name, _ in locked}) is (transport == BOTO3)
        names = [path.name.removesuffix(".dist-info") for path in asset.glob("*.dist-info")]
        held = {tuple(name.replace("_", "-").rsplit("-", 1)) for name in names}
        assert held == locked


@pytest.mark.network
def test_the_asset_has_our_packages_and_no_files_of_this_machine(aws_asset: Path) -> None:
    for package in bundling.PACKAGES:
        expected = {path.name for path in (ROOT / package).glob("*.py")}
        assert {path.name for path in (aws_asset / package).glob("*.py")} == expected
    assert not list(aws_asset.rglob("*.pyc"))
    assert not list(aws_asset.rglob("__pycache__"))
    assert not (aws_asset / "bin").exists()


@pytest.mark.network
def test_without_boto3_the_asset_is_half_as_large(aws_asset: Path, boto3_asset: Path) -> None:
    # Lambda's limit is 250 MB unpacked.
    assert size_of(boto3_asset) < 55_000_000
    assert size_of(aws_asset) < 30_000_000


def size_of(asset: Path) -> int:
    """Size of an asset in bytes, unpacked."""
    return sum(path.stat().st_size for path in asset.rglob("*") if path.is_file())


@pytest.mark.network
def test_everybody_may_read_the_asset_that_is_made_under_a_strict_umask(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-B", "-c", _BUNDLE, str(tmp_path)],
        cwd=ROOT,
        umask=0o077,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o755}
    assert {mode for path, mode in modes.items() if path.is_file()} <= {0o644, 0o755}
    assert modes[tmp_path / "functions/deliver.py"] == 0o644
    assert len(modes) > 100


@pytest.mark.network
def test_no_setting_of_uv_puts_this_machines_bytecode_into_the_asset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_COMPILE_BYTECODE", "1")  # as images of containers have it
    bundling.bundle(tmp_path, stage=DEV)
    assert not list(tmp_path.rglob("*.pyc"))


_BUNDLE = """
import sys
from pathlib import Path
from fanfold_cli.local import assembly
from infra import bundling
from infra.stages import DEV
bundling.bundle(Path(sys.argv[1]), stage=DEV)
"""


@pytest.mark.network
def test_no_file_of_the_asset_is_one_of_uvs_cache(aws_asset: Path) -> None:
    files = [path for path in aws_asset.rglob("*") if path.is_file()]
    assert {path.stat().st_nlink for path in files} == {1}


@pytest.mark.network
def test_a_function_can_be_imported_from_the_local_asset_alone(local_asset: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", _LOAD.format(path=str(local_asset))],
        cwd=local_asset,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


_LOAD = """
import sys
sys.path = [{path!r}, *(p for p in sys.path if 'site-packages' not in p)]
import aws_lambda_powertools, certifi, pycurl, fanfold.contract, fanfold.settings
for library in aws_lambda_powertools, certifi, pycurl:
    assert library.__file__.startswith({path!r}), library.__file__
assert certifi.where().startswith({path!r}), certifi.where()
# libcurl signs calls itself, and sends them over TLS.
assert pycurl.AWS_SIGV4
assert "https" in pycurl.version_info()[8]
"""


def test_a_missing_lock_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def asset_key(make_app: Callable[..., App], stage: Stage = DEV) -> str:
    """What functions are deployed with: another key is another upload."""
    app = make_app()
    FanfoldStack(app, "Fanfold", stage=stage)
    template = app.synth().get_stack_by_name("Fanfold").template
    (key,) = {
        resource["Properties"]["Code"]["S3Key"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    }
    return str(key)


@pytest.mark.parametrize(
    "other",
    [
        {"runtime": "python3.13"},
        {"wheel_platform": "x86_64-manylinux_2_28"},
        {"transport": BOTO3},
    ],
)
def test_a_change_of_the_runtime_or_the_transport_alone_makes_another_asset(
    make_app: Callable[..., App], other: dict[str, Any]
) -> None:
    assert asset_key(make_app) == asset_key(make_app, replace(DEV, name="other"))
    assert asset_key(make_app) != asset_key(make_app, replace(DEV, **other))


def test_a_change_of_how_it_is_made_makes_another_asset(
    make_app: Callable[..., App], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asset_key(make_app)
    source = Path(bundling.__file__).read_text(encoding="utf-8")
    for old, new in (("0o755", "0o555"), ('"--no-deps", ', ""), ('"bin", ', "")):
        assert old in source
        changed = tmp_path / "bundling.py"
        changed.write_text(source.replace(old, new), encoding="utf-8")
        with monkeypatch.context() as patch:
            patch.setattr(bundling, "SOURCE", changed)
            assert asset_key(make_app) != before, old


def test_another_uv_makes_another_asset(
    make_app: Callable[..., App], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = asset_key(make_app)
    monkeypatch.setattr(metadata, "version", {"uv": "0.0.1"}.__getitem__)
    assert asset_key(make_app) != before


def test_a_change_of_whatever_is_bundled_or_bundles_is_a_new_source_of_the_local_engine() -> None:
    bundler = str(bundling.SOURCE.parent.relative_to(bundling.ROOT))
    assert {*bundling.PACKAGES, *bundling.LOCKS.values(), bundler, "app.py"} <= set(
        assembly.SOURCES
    )

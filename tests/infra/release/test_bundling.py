"""The asset: wheels for the runtime, not for this machine, and our packages."""

import os
import re
import stat
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_

from fanfold.names import BOTO3
from fanfold_cli.local import assembly
from infra import bundling
from infra.settings.stages import DEV, LOCAL, Stage
from tests.infra.template import make_app, of_type, template_of

ROOT = Path(__file__).parents[3]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+) \\$", re.MULTILINE)
# Numbers of the ELF header.
MACHINES = {62: "x86_64", 183: "aarch64"}
WITH_BOTO3 = replace(DEV, transport=BOTO3)

of_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="wheels of other systems hold no ELF files"
)


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> dict[Stage, Path]:
    """Each asset, made under a strict umask and where uv is told to compile, as containers do.

    What takes it is thorough: `make test` deploys the local asset on the engine.
    """
    made = {stage: tmp_path_factory.mktemp("asset") for stage in (DEV, WITH_BOTO3, LOCAL)}
    usual = os.umask(0o077)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("UV_COMPILE_BYTECODE", "1")
            for stage, output in made.items():
                bundling.bundle(output, stage=stage)
    finally:
        os.umask(usual)
    return made


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


@pytest.mark.thorough
@pytest.mark.network
def test_the_asset_has_wheels_for_the_lambda_runtime(assets: dict[Stage, Path]) -> None:
    assert_fits(assets[DEV], python="3.14", architecture="aarch64")
    for python, architecture in (("3.13", "aarch64"), ("3.14", "x86_64")):
        with pytest.raises(AssertionError):
            assert_fits(assets[DEV], python=python, architecture=architecture)


@pytest.mark.thorough
@pytest.mark.network
@of_linux
def test_the_local_asset_has_wheels_for_this_machine(assets: dict[Stage, Path]) -> None:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert_fits(assets[LOCAL], python=version, architecture=os.uname().machine)


@pytest.mark.thorough
@pytest.mark.network
def test_each_asset_has_the_versions_of_its_lock(assets: dict[Stage, Path]) -> None:
    for stage, asset in assets.items():
        locked = set(PIN.findall((ROOT / bundling.LOCKS[stage.transport]).read_text()))
        assert {"pycurl", "certifi"} <= {name for name, _ in locked}
        assert ("boto3" in {name for name, _ in locked}) is (stage.transport == BOTO3)
        names = [path.name.removesuffix(".dist-info") for path in asset.glob("*.dist-info")]
        held = {tuple(name.replace("_", "-").rsplit("-", 1)) for name in names}
        assert held == locked


@pytest.mark.thorough
@pytest.mark.network
def test_the_asset_has_our_packages_for_everybody_and_no_files_of_this_machine(
    assets: dict[Stage, Path],
) -> None:
    asset = assets[DEV]
    for package in bundling.PACKAGES:
        expected = {path.name for path in (ROOT / package).glob("*.py")}
        assert {path.name for path in (asset / package).glob("*.py")} == expected
    found = {path: path.stat() for path in asset.rglob("*")}
    assert not [path for path in found if path.suffix == ".pyc" or path.name == "__pycache__"]
    assert not (asset / "bin").exists()
    modes = {path: stat.S_IMODE(status.st_mode) for path, status in found.items()}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o755}
    assert {mode for path, mode in modes.items() if path.is_file()} <= {0o644, 0o755}
    assert modes[asset / "functions/deliver.py"] == 0o644
    # None is a file of uv's cache.
    assert {status.st_nlink for path, status in found.items() if path.is_file()} == {1}


@pytest.mark.thorough
@pytest.mark.network
def test_without_boto3_the_asset_is_half_as_large(assets: dict[Stage, Path]) -> None:
    def size(stage: Stage) -> int:
        return sum(path.stat().st_size for path in assets[stage].rglob("*") if path.is_file())

    # Lambda's limit is 250 MB unpacked.
    assert size(WITH_BOTO3) < 55_000_000
    assert size(DEV) < 30_000_000


@pytest.mark.thorough
@pytest.mark.network
def test_a_function_can_be_imported_from_the_local_asset_alone(assets: dict[Stage, Path]) -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-B", "-c", _LOAD.format(path=str(assets[LOCAL]))],
        cwd=assets[LOCAL],
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


def asset_keys(*codes: lambda_.Code) -> list[str]:
    """What functions are deployed with: another key is another upload."""
    stack, runtime = Stack(make_app(), "Fanfold"), lambda_.Runtime.PYTHON_3_13
    for number, code in enumerate(codes):
        name, handler = f"Function{number}", "index.handler"
        lambda_.Function(stack, name, code=code, handler=handler, runtime=runtime)
    found = sorted(of_type(template_of(stack), "AWS::Lambda::Function").items())
    return [str(properties["Code"]["S3Key"]) for _, properties in found]


def test_runtime_and_transport_are_the_only_settings_that_change_the_asset() -> None:
    stages = (
        replace(DEV, name="other"),
        DEV,
        replace(DEV, runtime="python3.13"),
        replace(DEV, wheel_platform="x86_64-manylinux_2_28"),
        WITH_BOTO3,
    )
    same, *keys = asset_keys(*map(bundling.service_code, stages))
    assert len(set(keys)) == 4
    assert same == keys[0]


def test_a_change_of_how_it_is_made_makes_another_asset(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = [bundling.service_code(DEV)]
    changed = tmp_path / "bundling.py"
    source = bundling.SOURCE.read_text(encoding="utf-8")
    changed.write_text(source.replace("0o755", "0o555"), encoding="utf-8")
    with monkeypatch.context() as patch:
        patch.setattr(bundling, "SOURCE", changed)
        codes.append(bundling.service_code(DEV))
    monkeypatch.setattr(metadata, "version", {"uv": "0.0.1"}.__getitem__)
    codes.append(bundling.service_code(DEV))
    assert len(set(asset_keys(*codes))) == 3


def test_a_change_of_whatever_is_bundled_or_bundles_is_a_new_source_of_the_local_engine() -> None:
    bundler = str(bundling.SOURCE.parent.relative_to(bundling.ROOT))
    assert {*bundling.PACKAGES, *bundling.LOCKS.values(), bundler, "app.py"} <= set(
        assembly.SOURCES
    )

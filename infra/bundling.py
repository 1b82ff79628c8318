"""One asset for all functions: our packages and the locked wheels, installed by uv, not Docker."""

import hashlib
import os
import shutil
import stat
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Final

import jsii
import uv
from aws_cdk import BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

from fanfold.names import BOTO3, LIBCURL

from .settings.stages import Stage

SOURCE: Final = Path(__file__).resolve()
# The source of the asset; in a wheel, a folder of this package (hatch_build.py).
_PACKED: Final = SOURCE.parent / "source"
ROOT: Final = _PACKED if _PACKED.is_dir() else SOURCE.parent.parent
PACKAGES: Final = ("functions", "fanfold")
# By transport: boto3 is half of an asset, so only functions that call it have it.
LOCKS: Final = {LIBCURL: "requirements.txt", BOTO3: "requirements-boto3.txt"}
# Files of the installation that no function reads. The scripts in `bin` contain the path of this
# machine's Python, which would change the asset.
LEFTOVERS: Final = ("bin", ".lock")
# Lambda runs functions as another user than the files' owner, and CDK zips the modes as they are:
# after a umask of 077, no function could read its own code.
PLAIN_MODE: Final = 0o644
EXECUTABLE_MODE: Final = 0o755  # directories too


class BundlingError(RuntimeError):
    """The asset cannot be built."""


def bundle(output: Path, *, stage: Stage) -> None:
    """Install the wheels of the stage's lock and runtime into `output`, and copy our packages.

    The asset does not depend on the umask of the deploying user.
    """
    lock = ROOT / LOCKS[stage.transport]
    if not lock.exists():
        raise BundlingError(
            f"There is no {lock.name} in {ROOT}: make the lock of the runtime first."
        )
    install = [uv.find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
    # Wheels only: a package that is built here fits this machine, not the runtime.
    wheels = ["--only-binary", ":all:", "--python-platform", stage.wheel_platform]
    version = ["--python-version", stage.python_version]
    # Copies: a hard link would share its mode with uv's cache, and other installations.
    target = ["--link-mode", "copy", "--target", str(output), "--requirement", str(lock)]
    # Bytecode would be that of this machine's Python.
    environment = {**os.environ, "UV_COMPILE_BYTECODE": "0"}
    done = subprocess.run(
        [*install, *wheels, *version, *target],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BundlingError(
            f"uv cannot install {lock.name} for {stage.runtime} on {stage.wheel_platform}:\n"
            f"{done.stderr}"
        )
    for leftover in LEFTOVERS:
        path = output / leftover
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, output / package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
        )
    for path in output.rglob("*"):
        executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
        path.chmod(EXECUTABLE_MODE if executable else PLAIN_MODE)


def recipe(stage: Stage) -> dict[str, str]:
    """What an asset depends on besides its sources: part of its hash.

    Otherwise, a change of these would never reach a deployed function.
    """
    return {
        "RUNTIME": stage.runtime,
        "LOCK": LOCKS[stage.transport],
        "WHEELS": stage.wheel_platform,
        "UV": metadata.version("uv"),
        "BUNDLER": hashlib.sha256(SOURCE.read_bytes()).hexdigest(),
    }


@jsii.implements(ILocalBundling)
class UvBundling:
    """CDK calls this instead of Docker."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def try_bundle(self, output_dir: str, *_args: object, **_options: object) -> bool:
        """Raise errors rather than return False, because CDK would then look for Docker."""
        bundle(Path(output_dir), stage=self._stage)
        return True


def service_code(stage: Stage) -> lambda_.Code:
    """The asset of all functions; each stack may call it once."""
    kept = [LOCKS[stage.transport], *PACKAGES, *(f"{package}/**" for package in PACKAGES)]
    return lambda_.Code.from_asset(
        str(ROOT),
        # Excluded files do not count for the asset's hash, so editing them deploys nothing.
        exclude=["*", ".*", *(f"!{path}" for path in kept), "**/__pycache__"],
        bundling=BundlingOptions(
            image=DockerImage.from_registry("unused"),
            local=UvBundling(stage),
            environment=recipe(stage),
        ),
    )

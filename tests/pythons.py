"""CPython of the version that Lambda runs, for this machine or another one, from Maven Central."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import uv

# Whole installations as JavaCPP has them: Maven fetches them wherever it fetches DynamoDB Local.
ARTIFACT = "org.bytedeco:cpython:3.14.3-1.5.13:jar"
VERSION = "3.14"
FETCH_SECONDS = 300
ARM, X86 = "arm64", "x86_64"
MACHINE = {"aarch64": ARM, "arm64": ARM}.get(platform.machine().lower(), X86)
EMULATOR = "qemu-aarch64"
LOADER = Path("/lib/ld-linux-aarch64.so.1")
# As `make quick` runs them.
TESTS = ("-n", "2", "-q", "-m", "not (network or thorough)", "tests/unit", "tests/aws_model")
HOW = (
    "on Debian: dpkg --add-architecture arm64 && apt-get update && "
    "apt-get install qemu-user libc6:arm64 zlib1g:arm64"
)


class Missing(Exception):
    """There is no such Python here, and none can be fetched; the message says why."""


def emulated(folder: Path) -> list[str]:
    """The command that starts an arm64 Python, under qemu unless this machine is one."""
    if sys.platform != "linux":
        raise Missing("Only Linux runs the programs of another Linux machine.")
    if MACHINE != ARM and not (shutil.which(EMULATOR) and LOADER.exists()):
        raise Missing(f"qemu-user or the arm64 libraries are not installed ({HOW}).")
    home = fetch(ARM, folder)
    python = str(home / "bin" / f"python{VERSION}")
    if MACHINE == ARM:
        return ["env", f"LD_LIBRARY_PATH={home}", python]
    return [EMULATOR, "-E", f"LD_LIBRARY_PATH={home}", python]


def fetch(machine: str, folder: Path) -> Path:
    """Unpack the Python for a Linux `machine` into `folder`; the directory that has its `bin`."""
    if shutil.which("mvn") is None:
        raise Missing(f"Python {VERSION} would come by Maven, and mvn is not installed.")
    wanted = [f"-Dartifact={ARTIFACT}:linux-{machine}", f"-DoutputDirectory={folder}"]
    try:
        fetched = subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy", *wanted],
            cwd=folder,  # where there is no project
            capture_output=True,
            text=True,
            timeout=FETCH_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Missing(f"Maven did not fetch {ARTIFACT} within {FETCH_SECONDS} s.") from None
    if fetched.returncode:
        raise Missing(f"Maven could not fetch {ARTIFACT}:\n{fetched.stdout[-600:]}")
    (jar,) = folder.glob("*.jar")
    with zipfile.ZipFile(jar) as packed:
        packed.extractall(folder)
    jar.unlink()
    home = folder / "org" / "bytedeco" / "cpython" / f"linux-{machine}"
    for program in (home / "bin").iterdir():
        program.chmod(0o755)  # jars have no modes
    return home


def native(folder: Path) -> Path:
    """A Python of the version for this machine: one that is installed, or a fetched one."""
    if found := shutil.which(f"python{VERSION}"):
        return Path(found)
    if sys.platform != "linux":
        raise Missing(f"There is no python{VERSION} here, and those of Maven are for Linux.")
    return fetch(MACHINE, folder) / "bin" / f"python{VERSION}"


def main() -> int:
    """Run the unit tests on that Python, in an environment of its own; the exit code."""
    if platform.python_version().startswith(f"{VERSION}."):
        print(f"This is Python {VERSION}: the unit tests have run on it.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        fetched, environment = Path(folder) / "python", Path(folder) / "venv"
        fetched.mkdir()
        try:
            python = native(fetched)
        except Missing as reason:
            print(f"Left out. {reason}")
            return 0
        ours = str(environment / "bin" / "python")
        tool = uv.find_uv_bin()
        lock = ["--require-hashes", "--requirement", "requirements-dev.txt"]
        subprocess.run([tool, "venv", "--quiet", "--python", python, environment], check=True)
        subprocess.run([tool, "pip", "install", "--quiet", "--python", ours, *lock], check=True)
        checkout = ["--no-build-isolation", "--no-deps", "--editable", "."]
        subprocess.run([tool, "pip", "install", "--quiet", "--python", ours, *checkout], check=True)
        return subprocess.run([ours, "-m", "pytest", *TESTS], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())

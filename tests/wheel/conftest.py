"""The wheel, built from this checkout and installed where nothing else is."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uv

from fanfold_cli.local import deploy
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.stack import Deployment
from tests.lifetimes import LIFETIME_HOURS

Deploy = Callable[[Path], Deployment]


def run_uv(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [uv.find_uv_bin(), *map(str, arguments)]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("dist")
    how = ("--wheel", "--no-build-isolation", "--python", sys.executable)
    done = run_uv("build", "--quiet", *how, "--out-dir", output, CHECKOUT)
    assert done.returncode == 0, done.stderr
    (built,) = output.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but `fanfold[cdk]`, in the versions that this checkout locks."""
    directory = tmp_path_factory.mktemp("site") / "venv"
    made = run_uv("venv", "--quiet", "--no-project", "--python", sys.executable, directory)
    assert made.returncode == 0, made.stderr
    lock = ("--constraints", CHECKOUT / "requirements-dev.txt")
    install = ("pip", "install", "--quiet", "--python", directory / "bin/python", *lock)
    # What `make setup` has installed is in uv's cache. Somebody may have emptied it.
    if run_uv(*install, "--offline", f"{wheel}[cdk]").returncode != 0:
        done = run_uv(*install, f"{wheel}[cdk]")
        assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture
def deploy_example(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deploy]:
    """Deploy an app, with the installed wheel alone, on a local engine that ends with the test."""
    home = Home(tmp_path / "home")
    monkeypatch.setenv("PATH", str(site / "bin"), prepend=":")
    # pytest's own path must not lead the app to this checkout.
    monkeypatch.delenv("PYTHONPATH", raising=False)

    def bring_up(app: Path) -> Deployment:
        return deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS, foreign=app)

    yield bring_up
    deploy.take_down(home)

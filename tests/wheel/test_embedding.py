"""A foreign CDK app with the installed wheel alone."""

import subprocess
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.stack import Deployment
from infra import bundling
from infra.stages import DEV
from tests.e2e.clients import User, eventually

Deploy = Callable[[Path], Deployment]

EXAMPLES = CHECKOUT / "examples"
OURS = {"fanfold", "fanfold_cdk", "fanfold_cli", "fanfold_client"}


def users(stack: Deployment, *names: str) -> list[User]:
    """Users of a pool whose tokens name them by `sub`."""
    signed = [stack.sign_in(f"{name}-{uuid.uuid4().hex[:8]}") for name in names]
    return [User(stack, each.sub, each.token) for each in signed]


def test_the_wheel_holds_fanfolds_own_names_and_none_of_its_tools(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} <= OURS
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_wheel_makes_the_asset_that_the_checkout_makes(site: Path, tmp_path: Path) -> None:
    by_checkout, by_wheel = tmp_path / "checkout", tmp_path / "wheel"
    bundling.bundle(by_checkout, stage=DEV)
    done = subprocess.run(
        [site / "bin/python", "-I", "-c", _BUNDLE, by_wheel],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert contents(by_wheel) == contents(by_checkout)


_BUNDLE = """
import sys
from pathlib import Path
from fanfold_cdk import DEV, bundling
bundling.bundle(Path(sys.argv[1]), stage=DEV)
"""


def contents(directory: Path) -> dict[str, bytes]:
    """Every file but lists of what was installed, which have hashes of scripts for this Python."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and path.name != "RECORD"
    }


def test_twelve_lines_of_a_foreign_app_deploy_a_timeline(deploy_example: Deploy) -> None:
    app = EXAMPLES / "minimal"
    assert len((app / "app.py").read_text().splitlines()) <= 12
    stack = deploy_example(app)
    publisher, follower = users(stack, "publisher", "follower")
    follower.follow(publisher)
    post = publisher.publish(body={"title": "Hello"})
    eventually(lambda: follower.ref_ids() == [post["ref_id"]])

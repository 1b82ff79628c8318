"""The TypeScript client: built, tested, packed and used against the deployed stack, by Node."""

import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fanfold import times
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, entries, eventually, send
from tests.typescript import CLIENT, copied, run

CHROME = "FANFOLD_CHROME"


def run_on(
    stack: Deployment,
    built: Path,
    test: str,
    users: Mapping[str, User],
    *,
    sent: int = 0,
    published: int = 0,
    **environment: str,
) -> None:
    """Run a test of `clients/typescript/test` on the stack, with users by their short names."""
    tokens = {name: user.token for name, user in users.items()}
    names = {name: user.name for name, user in users.items()}
    posts = {"sent": sent, "published": published}
    environment["FANFOLD_STACK"] = json.dumps(
        {"url": stack.api_url, "tokens": tokens, "names": names, **posts}
    )
    # The example asks the `fanfold` of this checkout for a token.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run("node", "--test", f".build/{test}.e2e.js", cwd=built, environment=environment)


def delivered_to(stack: Deployment, user: User) -> int:
    return sum(name == user.name for name, _ in entries(stack))


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("client"))


@pytest.fixture(scope="module")
def built(client: Path) -> Path:
    """The client and its tests, compiled."""
    run("npm", "run", "build:tests", cwd=client)
    return client


def test_its_types_are_those_of_the_contract() -> None:
    run("npm", "run", "schema", "--", "--check")  # else: make documents


def test_its_own_tests_pass(built: Path) -> None:
    run("npm", "run", "test:built", cwd=built)


def test_it_works_with_every_route(
    stack: Deployment, make: Callable[[str], User], built: Path
) -> None:
    run_on(stack, built, "routes", {name: make(name) for name in ("erin", "frank", "grace")})


@pytest.mark.parametrize(
    ("sent", "published"),
    [pytest.param(60, 10, id="60"), pytest.param(2000, 200, id="2000", marks=pytest.mark.slow)],
)
def test_it_pages_both_ways_while_posts_are_published(
    stack: Deployment, make: Callable[[str], User], built: Path, sent: int, published: int
) -> None:
    users = {name: make(name) for name in ("alice", "bob", "carol")}
    publishers = [users["alice"], users["carol"]]
    for publisher in publishers:
        users["bob"].follow(publisher)
    before = time.time() - 2 * sent
    send(
        stack,
        *(
            {
                "type": "post.published",
                "publisher_id": publishers[number % 2].name,
                "ref_id": f"{users['bob'].name}-{number}",
                "published_at": times.to_text(int(1000 * (before + number))),
            }
            for number in range(sent)
        ),
    )
    eventually(lambda: delivered_to(stack, users["bob"]) == sent)
    run_on(stack, built, "paging", users, sent=sent, published=published)


@pytest.mark.slow
@pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64") and CHROME not in os.environ,
    reason=f"the bundled browser is for Linux on x64: name a Chrome in {CHROME}",
)
def test_its_example_is_a_timeline_in_a_browser(
    engine: Home, stack: Deployment, make: Callable[[str], User], built: Path, browser_folder: str
) -> None:
    users = {name: make(name) for name in ("alice", "bob", "carol")}
    run_on(stack, built, "page", users, FANFOLD_HOME=str(engine.path), TMPDIR=browser_folder)


@pytest.mark.slow
def test_its_package_serves_javascript_and_typescript(client: Path, tmp_path: Path) -> None:
    run("npm", "pack", "--silent", "--pack-destination", str(tmp_path), cwd=client)
    (package,) = tmp_path.glob("*.tgz")
    (tmp_path / "package.json").write_text('{"private": true, "type": "module"}')
    run("npm", "install", "--silent", "--prefer-offline", str(package), cwd=tmp_path)
    installed = tmp_path / "node_modules" / "fanfold-client"
    held = {path.relative_to(installed).parts[0] for path in installed.rglob("*")}
    assert held == {"dist", "README.md", "LICENSE", "package.json"}
    for name in ("app.js", "app.ts"):
        shutil.copy(CLIENT / "test" / "consumer" / name, tmp_path)
    assert run("node", "app.js", cwd=tmp_path) == "unreachable\n"
    loaded = "console.log(typeof require('fanfold-client').Fanfold)"
    assert run("node", "--eval", loaded, cwd=tmp_path) == "function\n"
    tsc = str(CLIENT / "node_modules" / ".bin" / "tsc")
    options = ["--noEmit", "--strict", "--target", "ES2022"]
    resolutions = {
        "module": ["NodeNext", "ESNext --moduleResolution bundler"],
        "commonjs": ["Node16", "NodeNext", "CommonJS"],
    }
    for kind, modules in resolutions.items():
        (tmp_path / "package.json").write_text(json.dumps({"private": True, "type": kind}))
        for module in modules:
            run(tsc, *options, "--module", *module.split(), "app.ts", cwd=tmp_path)

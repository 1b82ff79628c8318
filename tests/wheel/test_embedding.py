"""A foreign CDK app with the installed wheel alone."""

import json
import re
import sqlite3
import subprocess
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from examples.hydrate_sql import read
from fanfold import names
from fanfold_cli.local.engine import NEEDED
from fanfold_cli.local.home import CHECKOUT
from fanfold_cli.stack import Deployment
from fanfold_cli.users.sign_in import sign_in
from fanfold_client import Fanfold
from infra import bundling
from infra.settings.stages import DEV
from tests.e2e.clients import User, eventually, send

Deploy = Callable[[Path], Deployment]

EXAMPLES = CHECKOUT / "examples"
OURS = {"fanfold", "fanfold_cdk", "fanfold_cli", "fanfold_client"}


def users(stack: Deployment, *called: str) -> list[User]:
    """Users of a pool whose tokens name them by `sub`."""
    signed = [sign_in(stack, f"{name}-{uuid.uuid4().hex[:8]}") for name in called]
    return [User(stack, each.sub, each.token) for each in signed]


def test_the_wheel_holds_fanfolds_own_names_and_none_of_its_tools(wheel: Path) -> None:
    held = zipfile.ZipFile(wheel).namelist()
    tops = {name.partition("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} <= OURS
    assert not [name for name in held if name.endswith(".pyc")]
    assert "fanfold_cli/console/page/app.js" in held
    assert not [name for name in held if name.startswith("proof/hurt/")]


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


@pytest.mark.slow
def test_users_of_a_pool_of_the_app_read_their_timelines(deploy_example: Deploy) -> None:
    stack = deploy_example(EXAMPLES / "existing_pool")
    (pool,) = stack.client("cognito-idp").list_user_pools(MaxResults=10)["UserPools"]
    assert pool["Id"] == stack.output(names.USER_POOL_ID_OUTPUT)
    publisher, follower = (User(stack, name, stack.token(name)) for name in ("ada", "ben"))
    follower.follow(publisher)
    post = publisher.publish(body={"title": "Hello"})
    eventually(lambda: follower.ref_ids() == [post["ref_id"]])


@pytest.mark.slow
def test_events_of_the_app_become_posts(deploy_example: Deploy) -> None:
    stack = deploy_example(EXAMPLES / "eventbridge")
    reader = User(stack, "ben", stack.token("ben"))
    reader.follow(User(stack, "ada", ""))
    put_event(stack, published(1))
    eventually(lambda: reader.ref_ids() == ["article:1"])


@pytest.mark.slow
def test_content_of_posts_is_read_from_the_apps_database(deploy_example: Deploy) -> None:
    stack = deploy_example(EXAMPLES / "hydrate_sql")
    reader = User(stack, "ben", stack.token("ben"))
    reader.follow(User(stack, "ada", ""))
    articles = sqlite3.connect(":memory:")
    articles.execute("CREATE TABLE articles (id TEXT PRIMARY KEY, title TEXT)")
    for number in range(3):
        article = (f"article:{number}", f"No. {number}")
        articles.execute("INSERT INTO articles VALUES (?, ?)", article)
    send(stack, *map(published, range(3)))
    eventually(lambda: len(reader.ref_ids()) == 3)
    articles.execute("DELETE FROM articles WHERE id = 'article:1'")
    api = Fanfold(stack.api_url, reader.token)
    newest = read.page(api, articles, limit=2)
    oldest = read.page(api, articles, before=newest["next"])
    shown = [article["title"] for page in (newest, oldest) for article in page["articles"]]
    assert sorted(shown) == ["No. 0", "No. 2"]
    assert read.page(api, articles, after=newest["previous"])["articles"] == []
    articles.close()


def published(number: int) -> dict[str, Any]:
    """A message about an article of the app's, which is known by its id alone."""
    post = {"publisher_id": "ada", "ref_id": f"article:{number}"}
    return {"version": 1, "type": "post.published", **post}


def put_event(stack: Deployment, detail: dict[str, Any]) -> None:
    entry = {
        "Source": "shop",
        "DetailType": detail["type"],
        "Detail": json.dumps(detail),
        "EventBusName": stack.output("BusName"),
    }
    assert stack.client("events").put_events(Entries=[entry])["FailedEntryCount"] == 0


def test_the_extra_of_the_local_engine_names_all_that_it_needs(wheel: Path) -> None:
    """Other environments of this machine have it by chance."""
    with zipfile.ZipFile(wheel) as held:
        (metadata,) = (name for name in held.namelist() if name.endswith("/METADATA"))
        asked = held.read(metadata).decode().splitlines()
    local = [line for line in asked if line.startswith("Requires-Dist") and "'local'" in line]
    for package in NEEDED:
        assert any(re.match(rf"Requires-Dist: {package}\W", line) for line in local), package

"""Broken copies of the TypeScript client: the oracle of clients' eyes complains of each.

The service answers them over HTTP on loopback, and loses the first answer to each publish.
"""

from __future__ import annotations

import base64
import json
import shutil
import time
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from urllib3.exceptions import ProtocolError

from fanfold_cli.run.people import FOLLOWS, People
from fanfold_cli.run.verdict import Reading, judge
from tests import typescript
from tests.commands import Gateway
from tests.service import System
from tests.typescript import Node, TypeScriptUser
from tests.wire.server import CLOSE, Call, Reply, reply, serving

pytestmark = [pytest.mark.thorough, pytest.mark.network]
POSTS, LIMIT = 5, 2  # three pages


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = typescript.copied(tmp_path_factory.mktemp("client"))
    typescript.run("node_modules/.bin/tsc", "--noCheck", cwd=copy)
    return copy


def complaints(system: System, client: Path) -> list[str]:
    """What is wrong, by the record, with the timeline that bob scrolls through after posts."""
    gateway, people = Gateway(system), People(cast(Any, None))
    with serving(partial(_answer, gateway)) as server, closing(Node(client, server.url)) as node:
        for name in ("ada", "bob"):
            claims = base64.urlsafe_b64encode(json.dumps({"username": name}).encode()).decode()
            people.apis[name] = cast(Any, TypeScriptUser(node, name, f"x.{claims}.x"))
        people.want(FOLLOWS, "bob", "ada", True)
        for _ in range(POSTS):
            gateway.lost = 1
            people.publish("ada")
        gateway.pump()
        assert all(map(people.is_delivered, people.record.posts.values()))
        begun, page = time.time(), cast(Any, {"next": ""})
        while page["next"] is not None:
            page = people.api("bob").timeline.page(
                limit=LIMIT, before=page["next"] or None, hydrate=False
            )
        reading = Reading("bob", begun, time.time(), since=begun, entries=page["held"])
    return judge(people.record, [reading]).complaints


def _answer(gateway: Gateway, call: Call) -> Reply:
    headers = {name.lower(): value for name, value in call.headers}
    try:
        told = gateway.request(call.method, call.path, headers=headers, body=call.body)
    except ProtocolError:
        return Reply(b"", CLOSE)
    kind = {"Content-Type": told.headers.get("content-type")}
    return reply(told.data, f"{told.status} -", headers=kind)


def test_a_sound_client_is_given_no_complaint(system: System, built: Path) -> None:
    assert complaints(system, built) == []


@pytest.mark.parametrize(
    ("file", "before", "breaks", "complaint"),
    [
        pytest.param(
            "retry.js",
            'headers.set("Authorization"',
            'if (attempt) headers.set("Idempotency-Key", crypto.randomUUID());',
            "which nobody published so",
            id="repeats a publish under a new key",
        ),
        pytest.param(
            "pages.js",
            "if (isFirst)",
            "if (!isUp) answer.entries = [];",
            "does not show",
            id="drops the posts of a page",
        ),
    ],
)
def test_a_broken_client_is_noticed(
    system: System, built: Path, tmp_path: Path, file: str, before: str, breaks: str, complaint: str
) -> None:
    client = tmp_path / "broken"
    shutil.copytree(built, client, symlinks=True)
    source = client / "dist" / file
    text = source.read_text()
    assert text.count(before) == 1
    source.write_text(text.replace(before, f"{breaks}\n{before}"))
    assert any(complaint in each for each in complaints(system, client))

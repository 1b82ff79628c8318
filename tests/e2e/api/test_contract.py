"""The whole OpenAPI document against the deployed functions, by requests of schemathesis."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fanfold import contract
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, send
from tools.contract_docs import files

HERE = Path(__file__).parent
MAX_SECONDS = 600
# The user is among them.
PUBLISHERS = ["alice", "bea", "carl", "dora"]
KEPT = 8  # own posts that are never retracted, so that they can be read and edited


def places(user: User, path: str, down: str = "before") -> list[str]:
    """The cursors of all pages on the way down, in both directions."""
    found: list[str] = []
    query = "?limit=3"
    while query:
        answer = user.call("GET", f"{path}{query}")
        assert answer.status == 200, answer
        below, above = answer.content["next"], answer.content.get("previous")
        found += [each for each in (below, above) if each]
        query = f"?limit=3&{down}={below}" if below else ""
    return found


@pytest.mark.slow
def test_every_answer_is_as_the_document_says(stack: Deployment, tmp_path: Path) -> None:
    """Status, headers and content are documented and no 5xx; only valid requests are accepted."""
    user = User(stack, "bea", stack.token("bea"))
    for publisher in PUBLISHERS:
        user.follow(User(stack, publisher, ""))
    own = [user.publish(body={"title": f"Hello {number}"})["ref_id"] for number in range(2 * KEPT)]
    written = {"type": contract.POST_PUBLISHED, "publisher_id": PUBLISHERS[0], "body": {}}
    send(stack, *({**written, "ref_id": f"post-{number}"} for number in range(10)))
    eventually(lambda: len(user.ref_ids()) == len(own) + 10)
    pages = ["/v1/timeline", f"/v1/publishers/{user.name}/posts"]
    values = {
        "POSTS": own[:KEPT],
        "SPARE": own[KEPT:],
        "PUBLISHERS": PUBLISHERS,
        "PLACES": [place for path in pages for place in places(user, path)],
        "FOLLOWED": places(user, "/v1/following", "cursor"),
    }
    # Dictionaries take nothing from the environment.
    settings = (HERE / "schemathesis.toml").read_text()
    for name, each in values.items():
        settings = settings.replace(f"${{FANFOLD_{name}}}", json.dumps(each))
    (tmp_path / "schemathesis.toml").write_text(settings)
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "--config-file",
            tmp_path / "schemathesis.toml",
            "run",
            files.TODAY / files.OPENAPI,
            "--url",
            stack.api_url,
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "FANFOLD_TOKEN": user.token,
            "SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py"),
        },
        timeout=MAX_SECONDS,
    )
    assert done.returncode == 0

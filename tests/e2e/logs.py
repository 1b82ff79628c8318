"""What all functions have logged, and what of it no log may hold."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from fanfold import cursor, names
from fanfold.errors import BadInput
from fanfold.ids import is_id, is_sort_key
from fanfold_cli.run.rows import scan
from fanfold_cli.stack import Deployment
from proof.aws_verify.history import logged

# Tokens, headers, and AWS's keys of a session.
SECRETS = re.compile(
    r"\bbearer\b|authorization|eyJ[\w-]{8,}\.|x-amz-security-token|aws_secret_access_key",
    re.IGNORECASE,
)
# A line of these names one publisher, as docs/operations.md says.
NAMES_A_PUBLISHER = ("A publisher has grown.", "A publisher does not grow.")
# Shorter ones are ordinary words.
MIN_CHARS = 8
WORD = re.compile(r"[A-Za-z0-9_.:|@+=-]+")


def lines_of(stack: Deployment) -> dict[str, list[str]]:
    """The lines of each function by its name."""
    found: dict[str, list[str]] = {}
    for group, line in logged(stack):
        for function in names.FUNCTIONS:
            if f"{function.name.title()}FunctionLogs" in group:
                found.setdefault(function.name, []).append(line)
    return found


def readers_of(stack: Deployment) -> set[str]:
    """Everybody who follows, or whom a post has reached."""
    settings = stack.settings()
    tables = (settings.timelines_table, settings.following_table)
    pages = [page for table in tables for page in scan(stack, table, "user_id")]
    return {row["user_id"]["S"] for page in pages for row in page}


def posts_of(stack: Deployment) -> set[str]:
    """All texts in the bodies of posts."""
    pages = scan(stack, stack.settings().posts_table, "body")
    bodies = [row["body"]["S"] for page in pages for row in page if "S" in row.get("body", {})]
    return {text for body in bodies if body for text in _texts(json.loads(body))}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def secrets_in(
    lines: Iterable[str], *, readers: Collection[str], posts: Collection[str]
) -> list[str]:
    """The lines that hold a token, a cursor, a reader's id or a part of a post."""
    long_ids = {reader for reader in readers if len(reader) >= MIN_CHARS}
    contents = [post for post in posts if len(post) >= MIN_CHARS]
    return [
        line
        for line in lines
        if SECRETS.search(line)
        or any(map(_is_cursor, words := _words(line)))
        or not long_ids.isdisjoint(words)
        or any(post in line for post in contents)
    ]


def _words(line: str) -> set[str]:
    """What might be an id or a cursor, but for the one publisher whom the line may name."""
    try:
        content = json.loads(line)
    except ValueError:
        return set(WORD.findall(line))
    if isinstance(content, dict) and content.get("message") in NAMES_A_PUBLISHER:
        content.pop("publisher_id", None)
    return set(WORD.findall(json.dumps(content, ensure_ascii=False)))


def _is_cursor(word: str) -> bool:
    if len(word) < 2 * MIN_CHARS:
        return False
    try:
        cursor.decode(word, is_position=lambda text: is_sort_key(text) or is_id(text))
    except BadInput:
        return False
    return True


def assert_no_secrets(stack: Deployment) -> None:
    """Nothing that the functions have logged so far holds a secret."""
    lines = [line for each in lines_of(stack).values() for line in each]
    found = secrets_in(lines, readers=readers_of(stack), posts=posts_of(stack))
    assert not found, "\n".join(["These lines of logs hold secrets:", *found[:10]])

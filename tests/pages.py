"""The pages of the documentation: their shell blocks, how these are marked, and their commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Decisions and the changelog tell of what was; commands there need not work any more.
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "proof/bench/**/*.md", "clients/*/README.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)
AWS, BY_HAND = "aws", "by hand: "
_BLOCK = re.compile(r"^ *```sh(?: (.*))?\n((?:.*\n)*?) *```$", re.MULTILINE)
_CODE = re.compile(r"`(fanfold [^`]+)`")
_ENDS = set("();<>|&")


class Block(NamedTuple):
    page: str  # its path from the root
    mark: str  # empty if a test runs it; AWS; or BY_HAND and the reason
    commands: str

    @property
    def first(self) -> str:
        """The first line, without its comment."""
        return self.commands.strip().splitlines()[0].partition("  #")[0].strip()


def blocks() -> list[Block]:
    return [
        Block(str(path.relative_to(ROOT)), mark, commands)
        for path in PAGES
        for mark, commands in _BLOCK.findall(path.read_text())
    ]


def not_run() -> str:
    """The list of docs/verified.md: what CI does not run, and why."""
    on_aws = Counter(block.page for block in blocks() if block.mark == AWS)
    places = {"needs AWS": [f"{page} ({count})" for page, count in on_aws.items()]}
    for block in blocks():
        if block.mark.startswith(BY_HAND):
            why = block.mark.removeprefix(BY_HAND)
            places.setdefault(why, []).append(f"{block.page} (`{block.first}`)".replace("|", "\\|"))
    rows = [f"| {why} | {', '.join(where)} |" for why, where in places.items()]
    return "\n".join(["| why not | page (blocks, or first command) |", "| --- | --- |", *rows])


def fanfold_commands(commands: str) -> Iterator[list[str]]:
    """The words after `fanfold` of each such command, also of those in `$(…)`."""
    commands = commands.replace("\\\n", " ")
    for line in commands.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation over several lines, which holds no command of ours
        for place, word in enumerate(words):
            if "$(" in word and " " in word:
                yield from fanfold_commands(word.partition("$(")[2].rpartition(")")[0])
            if word == "fanfold" or word.endswith("/fanfold"):
                rest = words[place + 1 :]
                ends = [n for n, each in enumerate(rest) if set(each) <= _ENDS]
                yield rest[: ends[0]] if ends else rest


def inline_commands() -> list[tuple[str, str]]:
    """Page and text of every `fanfold …` in running text and tables."""
    return [
        (str(path.relative_to(ROOT)), code)
        for path in PAGES
        for code in _CODE.findall(_BLOCK.sub("", path.read_text()))
    ]

"""The tokens of an expression, taken one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from proof.model.errors import Invalid

TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z0-9_]*)|(?P<name>#[A-Za-z0-9_]+)|(?P<value>:[A-Za-z0-9_]+)"
    r"|(?P<number>\d+)|(?P<sign><>|<=|>=|[=<>()\[\],.+-]))"
)
MAX_EXPRESSION_BYTES = 4096


@dataclass
class Tokens:
    """The tokens of one expression; `kind` is its parameter's name, for messages."""

    kind: str
    text: str
    names: Mapping[str, str]
    used_names: set[str] = field(default_factory=set)
    used_values: set[str] = field(default_factory=set)
    tokens: list[tuple[str, str]] = field(default_factory=list)
    at: int = 0

    def __post_init__(self) -> None:
        if not self.text.strip():
            raise self._invalid("The expression can not be empty;")
        if len(self.text.encode()) > MAX_EXPRESSION_BYTES:
            raise self._invalid("Expression size has exceeded the maximum allowed size;")
        position, text = 0, self.text.rstrip()
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise self._syntax(text[position:].strip()[:1])
            self.tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            position = match.end()

    def _closes(self, opening: int) -> int:
        """The index of the bracket that matches the one at `opening`."""
        depth = 0
        for index in range(opening, len(self.tokens)):
            depth += {"(": 1, ")": -1}.get(self.tokens[index][1], 0)
            if depth == 0:
                return index
        return -1

    def _kind(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "end"

    def _peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else "<EOF>"

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _took(self, token: str) -> bool:
        """Take the next token if it is this one, in capitals or not."""
        if self._peek().upper() != token:
            return False
        self.at += 1
        return True

    def _take(self, *tokens: str) -> str:
        """Take the next token, which has to be one of these."""
        for token in tokens:
            if self._took(token):
                return token
        raise self._syntax(self._peek())

    def _syntax(self, token: str) -> Invalid:
        near = " ".join(each for _, each in self.tokens[max(0, self.at - 1) : self.at + 2])
        return self._invalid(f'Syntax error; token: "{token}", near: "{near}"')

    def _invalid(self, reason: str) -> Invalid:
        return Invalid(f"Invalid {self.kind}: {reason}")

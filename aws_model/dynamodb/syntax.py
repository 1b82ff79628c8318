"""The grammar of DynamoDB's expressions: text in, a small tree out.

Sources: "Comparison operator and function reference", "Update expressions", "Projection
expressions", "Expression attribute names (aliases)" of the Developer Guide. Names are resolved when
parsing, values stay placeholders, so that one tree serves every call with the same text and names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from aws_model.dynamodb.reserved_words import RESERVED_WORDS
from aws_model.errors import Invalid

TOKEN = re.compile(
    r"\s*(?:(?P<word>[A-Za-z][A-Za-z0-9_]*)|(?P<name>#[A-Za-z0-9_]+)|(?P<value>:[A-Za-z0-9_]+)"
    r"|(?P<number>\d+)|(?P<sign><>|<=|>=|[=<>()\[\],.+-]))"
)
T = TypeVar("T")

MAX_EXPRESSION_BYTES = 4096
COMPARATORS = {"=", "<>", "<", "<=", ">", ">="}
# What each Boolean function takes besides the path.
PREDICATES = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
}


@dataclass(frozen=True)
class Path:
    """A document path such as `resume.#segment` or `list[0]`, with its names resolved."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True)
class Placeholder:
    """A value that the request carries under this name, colon included."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of operands; a sum or difference is one called `+` or `-`."""

    function: str
    operands: tuple[Operand, ...]


Operand: TypeAlias = Path | Placeholder | Call


@dataclass(frozen=True)
class Comparison:
    """`left operator right`, where the operator may be BETWEEN or IN with several on the right."""

    operator: str
    left: Operand
    right: tuple[Operand, ...]


@dataclass(frozen=True)
class Logic:
    """AND, OR or NOT of conditions."""

    operator: str
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Logic | Call


@dataclass(frozen=True)
class Action:
    """One action of an update: SET, REMOVE, ADD or DELETE at a path."""

    verb: str
    path: Path
    operand: Operand | None = None


@dataclass
class Parser:
    """One expression; `kind` is what the request calls it, for the messages."""

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
        position = 0
        text = self.text.rstrip()
        while position < len(text):
            match = TOKEN.match(text, position)
            if match is None:
                raise self._syntax(text[position:].strip()[:1])
            self.tokens.append((str(match.lastgroup), match.group(str(match.lastgroup))))
            position = match.end()

    def condition(self) -> Condition:
        """A whole condition, filter or key condition."""
        return self._whole(self._or)

    def projection(self) -> tuple[Path, ...]:
        """A whole projection."""
        return self._whole(lambda: self._listed(self._path))

    def update(self) -> tuple[Action, ...]:
        """A whole update: each of its four clauses at most once, in any order."""
        actions: list[Action] = []
        seen: set[str] = set()
        while self.at < len(self.tokens):
            clause = self._take_word("SET", "REMOVE", "ADD", "DELETE")
            if clause in seen:
                raise self._invalid(
                    f'The "{clause}" section can only be used once in an update expression;'
                )
            seen.add(clause)
            actions += self._listed(lambda verb=clause: self._action(verb))  # type: ignore[misc]
        return tuple(actions)

    def _action(self, verb: str) -> Action:
        path = self._path()
        if verb == "REMOVE":
            return Action(verb, path)
        if verb == "SET":
            self._take("=")
            return Action(verb, path, self._sum())
        return Action(verb, path, self._value())

    def _sum(self) -> Operand:
        left = self._set_operand()
        sign = self._peek()
        if sign in ("+", "-"):
            self.at += 1
            return Call(sign, (left, self._set_operand()))
        return left

    def _set_operand(self) -> Operand:
        if self._peek() == "(":
            self._take("(")
            inner = self._sum()
            self._take(")")
            return inner
        function = self._function_name()
        if function is None:
            return self._path_or_value()
        if function == "if_not_exists":
            self._take("(")
            path = self._path()
            self._take(",")
            call = Call(function, (path, self._sum()))
        elif function == "list_append":
            self._take("(")
            first = self._sum()
            self._take(",")
            call = Call(function, (first, self._sum()))
        else:
            raise self._invalid(f"Invalid function name; function: {function}")
        self._take(")")
        return call

    def _or(self) -> Condition:
        return self._chain("OR", lambda: self._chain("AND", self._not))

    def _chain(self, operator: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._peek().upper() == operator:
            self.at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Logic(operator, tuple(parts))

    def _not(self) -> Condition:
        if self._peek().upper() == "NOT":
            self.at += 1
            return Logic("NOT", (self._not(),))
        return self._primary()

    def _primary(self) -> Condition:
        if self._peek() == "(":
            start = self.at
            self._take("(")
            inner = self._or()
            self._take(")")
            if self.tokens[start + 1][1] == "(" and self._closes(start + 1) == self.at - 2:
                raise self._invalid("The expression has redundant parentheses;")
            return inner
        function = self._function_name()
        if function in PREDICATES:
            return self._predicate(function)
        if function is not None and function != "size":
            raise self._invalid(f"Invalid function name; function: {function}")
        if function == "size":
            self.at -= 1  # it is an operand, not a condition
        left = self._operand()
        operator = self._peek().upper()
        if operator == "BETWEEN":
            self.at += 1
            low = self._operand()
            self._take_word("AND")
            return Comparison(operator, left, (low, self._operand()))
        if operator == "IN":
            self.at += 1
            self._take("(")
            choices = self._listed(self._operand)
            self._take(")")
            return Comparison(operator, left, choices)
        if operator not in COMPARATORS:
            raise self._syntax(operator)
        self.at += 1
        right = self._operand()
        if left == right:
            raise self._invalid(
                "The first operand must be distinct from the remaining operands for this operator "
                f"or function; operator: {operator}"
            )
        return Comparison(operator, left, (right,))

    def _predicate(self, function: str) -> Call:
        self._take("(")
        operands = self._listed(self._operand)
        self._take(")")
        if len(operands) != PREDICATES[function]:
            raise self._invalid(
                "Incorrect number of operands for operator or function; operator or function: "
                f"{function}, number of operands: {len(operands)}"
            )
        if function.startswith("attribute_") and not isinstance(operands[0], Path):
            raise self._invalid(
                f"Operator or function requires a document path; operator or function: {function}"
            )
        return Call(function, operands)

    def _operand(self) -> Operand:
        if self._function_name() == "size":
            self.at += 1
            operand = self._path_or_value()
            self._take(")")
            return Call("size", (operand,))
        return self._path_or_value()

    def _function_name(self) -> str | None:
        """The function whose call begins here; then the bracket is next."""
        if self.at + 1 < len(self.tokens):
            (kind, word), (_, bracket) = self.tokens[self.at : self.at + 2]
            if kind == "word" and bracket == "(" and word.upper() not in ("AND", "OR", "NOT", "IN"):
                self.at += 1
                return word
        return None

    def _path_or_value(self) -> Operand:
        return self._value() if self._kind() == "value" else self._path()

    def _value(self) -> Placeholder:
        if self._kind() != "value":
            raise self._syntax(self._peek())
        name = self._next()
        self.used_values.add(name)
        return Placeholder(name)

    def _path(self) -> Path:
        parts: list[str | int] = [self._part()]
        while self._peek() in (".", "["):
            if self._next() == ".":
                parts.append(self._part())
            else:
                if self._kind() != "number":
                    raise self._syntax(self._peek())
                parts.append(int(self._next()))
                self._take("]")
        return Path(tuple(parts))

    def _part(self) -> str:
        kind, token = self._kind(), self._peek()
        if kind not in ("word", "name"):
            raise self._syntax(token)
        self.at += 1
        if kind == "word":
            if token.upper() in RESERVED_WORDS:
                raise self._invalid(
                    f"Attribute name is a reserved keyword; reserved keyword: {token}"
                )
            return token
        self.used_names.add(token)
        if token not in self.names:
            raise self._invalid(
                "An expression attribute name used in the document path is not defined; attribute "
                f"name: {token}"
            )
        return self.names[token]

    def _listed(self, part: Callable[[], T]) -> tuple[T, ...]:
        found = [part()]
        while self._peek() == ",":
            self.at += 1
            found.append(part())
        return tuple(found)

    def _whole(self, part: Callable[[], T]) -> T:
        found = part()
        if self.at < len(self.tokens):
            raise self._syntax(self._peek())
        return found

    def _closes(self, opening: int) -> int:
        """The index of the bracket that closes the one at `opening`."""
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

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            self.at -= 1
            raise self._syntax(self._peek())

    def _take_word(self, *words: str) -> str:
        word = self._next().upper()
        if word not in words:
            self.at -= 1
            raise self._syntax(self._peek())
        return word

    def _syntax(self, token: str) -> Invalid:
        near = " ".join(each for _, each in self.tokens[max(0, self.at - 1) : self.at + 2])
        return self._invalid(f'Syntax error; token: "{token}", near: "{near}"')

    def _invalid(self, reason: str) -> Invalid:
        return Invalid(f"Invalid {self.kind}: {reason}")

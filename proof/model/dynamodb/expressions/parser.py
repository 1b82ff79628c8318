"""The grammar of DynamoDB's expressions: text in, a syntax tree out.

Sources: "Comparison operator and function reference", "Update expressions", "Projection
expressions", "Expression attribute names (aliases)" of the Developer Guide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from proof.model.dynamodb.expressions.reserved_words import RESERVED_WORDS
from proof.model.dynamodb.expressions.syntax import (
    Action,
    Call,
    Comparison,
    Condition,
    Logic,
    Operand,
    Path,
    Placeholder,
    clash,
)
from proof.model.dynamodb.expressions.tokens import Tokens

T = TypeVar("T")

COMPARATORS = {"=", "<>", "<", "<=", ">", ">="}
# The operands of each Boolean function.
PREDICATES = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
}


class Parser(Tokens):
    def condition(self) -> Condition:
        return self._whole(self._or)

    def projection(self) -> tuple[Path, ...]:
        return self._apart(self._whole(lambda: self._listed(self._path)))

    def update(self) -> tuple[Action, ...]:
        """A whole update: each of its four clauses at most once, in any order."""
        actions: list[Action] = []
        seen: set[str] = set()
        while self.at < len(self.tokens):
            clause = self._take("SET", "REMOVE", "ADD", "DELETE")
            if clause in seen:
                raise self._invalid(
                    f'The "{clause}" section can only be used once in an update expression;'
                )
            seen.add(clause)
            actions += self._listed(lambda verb=clause: self._action(verb))  # type: ignore[misc]
        self._apart(tuple(action.path for action in actions))
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
        for sign in ("+", "-"):
            if self._took(sign):
                return Call(sign, (left, self._set_operand()))
        return left

    def _set_operand(self) -> Operand:
        if self._took("("):
            inner = self._sum()
            self._take(")")
            return inner
        function = self._function_name()
        if function is None:
            return self._path_or_value()
        if function not in ("if_not_exists", "list_append"):
            raise self._invalid(f"Invalid function name; function: {function}")
        self._take("(")
        first = self._path() if function == "if_not_exists" else self._sum()
        self._take(",")
        call = Call(function, (first, self._sum()))
        self._take(")")
        return call

    def _or(self) -> Condition:
        return self._chain("OR", lambda: self._chain("AND", self._not))

    def _chain(self, operator: str, part: Callable[[], Condition]) -> Condition:
        parts = [part()]
        while self._took(operator):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Logic(operator, tuple(parts))

    def _not(self) -> Condition:
        if self._took("NOT"):
            return Logic("NOT", (self._not(),))
        return self._primary()

    def _primary(self) -> Condition:
        start = self.at
        if self._took("("):
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
        return self._comparison()

    def _comparison(self) -> Comparison:
        left = self._operand()
        if self._took("BETWEEN"):
            low = self._operand()
            self._take("AND")
            return Comparison("BETWEEN", left, (low, self._operand()))
        if self._took("IN"):
            return Comparison("IN", left, self._operands())
        operator = self._peek()
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
        operands = self._operands()
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

    def _operands(self) -> tuple[Operand, ...]:
        self._take("(")
        operands = self._listed(self._operand)
        self._take(")")
        return operands

    def _operand(self) -> Operand:
        if self._function_name() == "size":
            self.at += 1
            operand = self._path_or_value()
            self._take(")")
            return Call("size", (operand,))
        return self._path_or_value()

    def _function_name(self) -> str | None:
        """Take the name of the function whose call begins here, up to its bracket."""
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
        while self._took(","):
            found.append(part())
        return tuple(found)

    def _whole(self, part: Callable[[], T]) -> T:
        found = part()
        if self.at < len(self.tokens):
            raise self._syntax(self._peek())
        return found

    def _apart(self, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        if how := clash(paths):
            raise self._invalid(
                f"Two document paths {how} with each other; must remove or rewrite one of these "
                "paths;"
            )
        return paths

"""What may be changed in a module's source: the operators of the trade, and one for guards in text.

A change replaces one span of the source, so that everything else stays as it is written. The guards
of this product stand in the condition and update expressions of DynamoDB, which are text and
dictionaries: `clause` and `entry` take them apart.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

_COMPARISONS = {
    "<=": "<",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "<": "<=",
    ">": ">=",
    "is not": "is",
    "is": "is not",
    "not in": "in",
    "in": "not in",
}
_ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "/": "*"}
_OPPOSITES = {"max": "min", "min": "max", "any": "all", "all": "any"}
# In expressions of DynamoDB. An equality may be a SET, and stays.
_IN_CLAUSES = {
    "<=": "<",
    ">=": ">",
    "<>": "=",
    " < ": " <= ",
    " > ": " >= ",
    "attribute_not_exists": "attribute_exists",
    "NOT ": "",
}
_CLAUSE = re.compile(r"attribute_(?:not_)?exists|contains\(|(?<!\w)[#:]\w|{is_|^. AND .$")
_CONNECTIVE = re.compile(r" (AND|OR) ")
# What they say is not what the product does.
_MESSAGES = {"logger", "text", "notify"}

# By the name of a function or dataclass, the keywords that a call may leave out; `ANY` stands for
# all of them.
Optional = Mapping[str, frozenset[str]]
ANY = "*"


@dataclass(frozen=True)
class Change:
    """Replace the source from `start` to `end`, as offsets of characters."""

    function: str  # dotted name; empty at the top of the module
    operator: str
    start: int
    end: int
    text: str


@dataclass
class _Module:
    source: str
    optional: Optional
    body_column: int = 0  # of the statements of the function at hand

    def __post_init__(self) -> None:
        self.tree = ast.parse(self.source)
        functions = (each for each in ast.walk(self.tree) if isinstance(each, ast.FunctionDef))
        self.tails = {id(tail) for each in functions for tail in _tails(each.body)}
        # ast counts bytes within a line.
        self._lines = [line.encode() for line in self.source.splitlines(keepends=True)]
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line.decode()))

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1][:column].decode())

    def start(self, node: ast.AST) -> int:
        return self.at(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self.at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def text(self, node: ast.AST) -> str:
        return self.source[self.start(node) : self.end(node)]


Edit = tuple[int, int, str]
Operator = Callable[[_Module, ast.AST], Iterator[Edit]]


def _between(
    module: _Module, left: ast.AST, right: ast.AST, table: Mapping[str, str]
) -> list[Edit]:
    """Replace the operator between two operands."""
    start, end = module.end(left), module.start(right)
    gap = module.source[start:end]
    for old, new in table.items():
        if found := re.search(rf"(?<![\w<>=!*/]){re.escape(old)}(?![\w<>=*/])", gap):
            return [(start + found.start(), start + found.end(), new)]
    return []


def compare(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A comparison is another one: its boundary moves, or it is its opposite."""
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, right in pairwise(operands):
            yield from _between(module, left, right, _COMPARISONS)


def arithmetic(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A sum is a difference, a product a quotient, and the other way round."""
    if isinstance(node, ast.BinOp) and not _is_text(node.left) and not _is_text(node.right):
        yield from _between(module, node.left, node.right, _ARITHMETIC)


def logic(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """`and` is `or`; one side of it is missing; `not` is missing."""
    if isinstance(node, ast.BoolOp):
        for left, right in pairwise(node.values):
            yield from _between(module, left, right, {"and": "or", "or": "and"})
            yield module.start(left), module.start(right), ""
            yield module.end(left), module.end(right), ""
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield module.start(node), module.end(node), module.text(node.operand)


def condition(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A condition always holds, or never."""
    if isinstance(node, ast.If) and module.text(node.test) != "TYPE_CHECKING":
        for always in ("True", "False"):
            yield module.start(node.test), module.end(node.test), always
    elif isinstance(node, ast.IfExp):
        for branch in (node.body, node.orelse):
            yield module.start(node), module.end(node), module.text(branch)
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield module.start(test), module.end(test), "True"


def statement(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A call, a change of state, an early return or a raise is missing."""
    kinds = (ast.AugAssign, ast.Raise, ast.Break, ast.Continue, ast.Delete)
    is_call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    # Without the first assignment of a name, or the last return, nothing would work at all.
    is_change = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name)
    if isinstance(node, ast.Return) and not node.value and id(node) in module.tails:
        return  # nothing comes after it
    is_early = isinstance(node, ast.Return) and node.col_offset > module.body_column
    if is_call or is_change or is_early or isinstance(node, kinds):
        yield module.start(node), module.end(node), "pass"


def constant(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A number is off by one, a truth is its opposite."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, bool):
            yield module.start(node), module.end(node), str(not node.value)
        elif isinstance(node.value, int | float):
            for other in (node.value + 1, node.value - 1):
                yield module.start(node), module.end(node), repr(other)


def opposite(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """`max` is `min`, `any` is `all`, and the other way round."""
    if isinstance(node, ast.Call) and (other := _OPPOSITES.get(ast.unparse(node.func))):
        yield module.start(node.func), module.end(node.func), other


def argument(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """A keyword that has a default is not given."""
    if isinstance(node, ast.Call):
        owner, _, called = ast.unparse(node.func).rpartition(".")
        if owner.endswith("client"):
            return  # AWS's own demands
        optional = module.optional.get(called, frozenset())
        for keyword in node.keywords:
            if keyword.arg in optional or (keyword.arg and ANY in optional):
                yield _with_comma(module, keyword)


def entry(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """An attribute is not set, not removed, or not part of a request."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            start = module.start(key or value) - (0 if key else len("**"))
            yield _with_comma(module, value, start)
    elif isinstance(node, ast.List) and isinstance(node.ctx, ast.Load):
        for each in node.elts:
            if isinstance(each, ast.Name | ast.Constant | ast.JoinedStr):
                yield _with_comma(module, each)


def clause(module: _Module, node: ast.AST) -> Iterator[Edit]:
    """One guard of a condition expression is missing, or another one."""
    if not _is_text(node) or not _CLAUSE.search(module.text(node)):
        return
    start, raw = module.start(node), module.text(node)
    quote = re.match(r"""[rbf]*("{3}|"|')""", raw)
    assert quote
    inner, offset = raw[quote.end() : -len(quote[1])], start + quote.end()
    for found in _CONNECTIVE.finditer(inner):
        other = {"AND": "OR", "OR": "AND"}[found[1]]
        yield offset + found.start(1), offset + found.end(1), other
        before = inner[: found.start()].rpartition(" AND ")[2].rpartition(" OR ")[2]
        after = re.split(" AND | OR ", inner[found.end() :])[0]
        if before.count("(") == before.count(")"):
            yield offset + found.start() - len(before), offset + found.end(), ""
        if after.count("(") == after.count(")"):
            yield offset + found.start(), offset + found.end() + len(after), ""
    for old, new in _IN_CLAUSES.items():
        for found in re.finditer(re.escape(old), inner):
            yield offset + found.start(), offset + found.end(), new


OPERATORS: tuple[Operator, ...] = (
    compare,
    arithmetic,
    logic,
    condition,
    statement,
    constant,
    opposite,
    argument,
    entry,
    clause,
)


def _tails(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function behind which it ends."""
    last = body[-1]
    yield last
    if isinstance(last, ast.If | ast.Try | ast.With):
        blocks = [last.body, getattr(last, "orelse", []), getattr(last, "finalbody", [])]
        blocks += [each.body for each in getattr(last, "handlers", [])]
        for block in filter(None, blocks):
            yield from _tails(block)


def _is_text(node: ast.AST) -> bool:
    is_constant = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_constant or isinstance(node, ast.JoinedStr)


def _with_comma(module: _Module, node: ast.AST, start: int | None = None) -> Edit:
    """Remove an element with the comma behind it."""
    end = module.end(node)
    comma = re.match(r",[ \t]?", module.source[end:])
    return (
        (module.start(node) if start is None else start),
        end + len(comma[0] if comma else ""),
        "",
    )


def changes(source: str, optional: Optional) -> Iterator[Change]:
    """Every change of a module's functions that leaves it a program, in the order of the source."""
    module = _Module(source, optional)
    seen: set[str] = set()
    for function, node in _nodes(module.tree, ""):
        module.body_column = 4 * (1 + function.count("."))
        for operator in OPERATORS:
            for start, end, text in operator(module, node):
                mutated = source[:start] + text + source[end:]
                if mutated not in seen and mutated != source and _compiles(mutated):
                    seen.add(mutated)
                    yield Change(function, operator.__name__, start, end, text)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """What is executed, by the name of its function: no annotations, defaults, docs or messages."""
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or name in (
                "annotation",
                "returns",
                "decorator_list",
            ):
                continue
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                yield from _nodes(child, f"{function}.{child.name}".lstrip("."))
            elif not _is_message(child) and not isinstance(child, ast.arguments):
                if function or _is_guard(child):
                    yield function, child
                # What stands within an f-string has no positions before Python 3.12.
                if not isinstance(child, ast.JoinedStr):
                    yield from _nodes(child, function)


def _is_guard(node: ast.AST) -> bool:
    """At the top of a module only the texts of guards: numbers there have a reason beside them."""
    return _is_text(node) or isinstance(node, ast.Dict)


def _is_message(node: ast.AST) -> bool:
    """Whether it is a docstring, a log line, or the text of an error."""
    if isinstance(node, ast.Expr):
        root = ast.unparse(node.value).partition(".")[0]
        return isinstance(node.value, ast.Constant) or root in _MESSAGES
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    if is_call and ast.unparse(node).startswith("field("):
        return True  # how a dataclass is made
    return is_call and all(map(_is_text, node.args)) and bool(node.args)  # type: ignore[attr-defined]


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def optional_names(sources: Iterable[str]) -> Optional:
    """What calls may leave out of the functions and dataclasses of these modules."""
    found = {"replace": {ANY}, "partial": {ANY}}
    for source in sources:
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef):
                found.setdefault(node.name, set()).update(_defaults(node.args))
            elif isinstance(node, ast.ClassDef):
                fields = (each for each in node.body if isinstance(each, ast.AnnAssign))
                names = (ast.unparse(each.target) for each in fields if each.value)
                found.setdefault(node.name, set()).update(names)
    return {name: frozenset(keywords) for name, keywords in found.items()}


def _defaults(arguments: ast.arguments) -> Iterator[str]:
    if arguments.kwarg:
        yield ANY
    if arguments.defaults:
        yield from (each.arg for each in arguments.args[-len(arguments.defaults) :])
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from (each.arg for each, default in pairs if default)

"""The page of a stage's settings: each row comes from the fields of `Stage`."""

from __future__ import annotations

import ast
import inspect
from typing import Any, get_type_hints

from fanfold.settings import StageSettings
from infra.settings.context import FIXED
from infra.settings.stages import DEV, PROD, Stage

# The first field of the second table.
TEAM = "kms_key"
HEADER = """# Settings of a stage

Give them as `npx cdk deploy -c NAME=VALUE`. `fanfold local up` takes most of them ([exceptions](local-engine.md#values-of--c)). Every deploy needs all values of its stage: keep them in a script, since `cdk.json` would give them to all stages. `make documents` writes this page from `infra/settings/stages.py` and `fanfold/settings.py`.

`name=staging`, `like=prod`, instead of `stage=`, make [a stage of your own](embedding.md#several-in-one-account); its stack is `Fanfold-staging`.
"""  # noqa: E501
TEAM_HEADER = """
## What a team asks for

[Embedding](embedding.md#what-teams-ask-for) explains these.
"""
COLUMNS = """
| `-c` | default | values | meaning |
| --- | --- | --- | --- |
"""
FOOTER = """
[The README](../README.md#deploy-to-aws) has `stage` and who the users are; [budgets](operations.md#budgets) explains the lanes.
"""  # noqa: E501


def page() -> str:
    """The text of docs/settings.md."""
    found = [row for kind in (StageSettings, Stage) for row in rows(kind)]
    [split] = [at for at, row in enumerate(found) if row.startswith(f"| `{TEAM}`")]
    tables = [COLUMNS + "".join(part) for part in (found[:split], found[split:])]
    return f"{HEADER}{tables[0]}{TEAM_HEADER}{tables[1]}{FOOTER}"


def rows(kind: type[Any]) -> list[str]:
    """A row for each string in a class body, about the fields directly above it."""
    [declared] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(declared, ast.ClassDef)
    hints = get_type_hints(kind, include_extras=True)
    rules = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    found, group = [], list[str]()
    for each in declared.body[1:]:  # after the docstring
        if isinstance(each, ast.AnnAssign):
            name = ast.unparse(each.target)
            group += [] if name in FIXED else [name]
        elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
            values = (rule.words for name in group for rule in rules[name])
            cells = [
                ", ".join(f"`{name}`" for name in group),
                "; ".join(dict.fromkeys(_default(name) for name in group)),
                "; ".join(dict.fromkeys(values)).removeprefix("from ").removeprefix("one of "),
                " ".join(str(each.value.value).split()),
            ]
            found.append(f"| {' | '.join(cells)} |\n")
            group = []
    return found


def _default(name: str) -> str:
    dev, prod = (_shown(getattr(stage, name)) for stage in (DEV, PROD))
    return dev if dev == prod else f"{dev} on `dev`, {prod} on `prod`"


def _shown(value: object) -> str:
    return "none" if value in (None, ()) else f"`{str(value).lower()}`"

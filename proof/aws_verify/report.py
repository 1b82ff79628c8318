"""The report of a run, as JSON and Markdown, without account numbers and secrets."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# What errors of AWS or libraries may contain.
_SECRETS = (
    (re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*"), "[token]"),
    (re.compile(r"\barn:[\w-]+:[^\s\"',)]+"), "[arn]"),
    (re.compile(r"\bhttps?://[^\s\"',)]+"), "[address]"),
    (re.compile(r"\b[\w.+-]+@[\w-]+\.[\w.-]+"), "[e-mail]"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), "[access key]"),
    (
        re.compile(r"\b[a-z0-9]{4,}\.(?:execute-api|sqs|dynamodb)[\w.-]*\.amazonaws\.com\S*"),
        "[address]",
    ),
    (re.compile(r"\b(?:us|eu|ap|ca|sa|me|af|il|mx)-[a-z]+-\d_[A-Za-z0-9]+\b"), "[user pool]"),
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "[account]"),
    (re.compile(r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\.?\d)"), "[address]"),
)


@dataclass
class Report:
    """Sections by name, failures as sentences, and what was skipped with the reason."""

    sections: dict[str, Any]
    failures: list[str] = field(default_factory=list)
    skipped: list[dict[str, str]] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.failures

    def skip(self, what: str, why: str) -> None:
        self.skipped.append({"what": what, "why": why})

    def content(self) -> dict[str, Any]:
        whole: dict[str, Any] = scrubbed(
            {
                "passed": self.passed,
                "failures": self.failures,
                **self.sections,
                "skipped": self.skipped,
            }
        )
        return whole

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Write NAME.json and NAME.md; existing files are overwritten."""
        directory.mkdir(parents=True, exist_ok=True)
        content = self.content()
        as_json, as_text = directory / f"{name}.json", directory / f"{name}.md"
        as_json.write_text(json.dumps(content, indent=2) + "\n")
        as_text.write_text("\n".join(markdown(content)) + "\n")
        return as_json, as_text


def scrubbed(value: Any) -> Any:
    """The value, with secrets and addresses replaced in all its strings."""
    if isinstance(value, str):
        for pattern, name in _SECRETS:
            value = pattern.sub(name, value)
        return value
    if isinstance(value, dict):
        return {scrubbed(key): scrubbed(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [scrubbed(each) for each in value]
    return value


def markdown(content: dict[str, Any]) -> Iterator[str]:
    """The lines of the report for people."""
    yield "# A run of Fanfold's aws-verify"
    yield ""
    yield "**Passed.**" if content["passed"] else "**Failed:**"
    yield from ("", *(f"* {sentence}" for sentence in content["failures"]))
    for name, value in content.items():
        if name not in ("passed", "failures"):
            yield from _section(name, value)


def _section(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, list):
        yield from _table(name, value)
        return
    nested = {key: each for key, each in value.items() if isinstance(each, dict)}
    pairs = ({"": _words(key), " ": each} for key, each in value.items() if key not in nested)
    yield from _table(name, list(pairs))
    for key, rows in nested.items():
        yield from _table(key, [{"name": row, **values} for row, values in rows.items()])


def _table(title: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    if not rows:
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    yield from ("", f"## {_words(title).capitalize()}", "")
    yield f"| {' | '.join(map(_words, columns))} |"
    yield f"| {' | '.join('---' for _ in columns)} |"
    for row in rows:
        yield f"| {' | '.join(_cell(row.get(name)) for name in columns)} |"


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.4g}" if abs(value) < 100 else f"{value:,.0f}"
        case list():
            return ", ".join(map(_cell, value))
        case dict():
            return ", ".join(f"{_words(name)} {_cell(each)}" for name, each in value.items())
        case _:
            return str(value).replace("|", "\\|").replace("\n", " ")

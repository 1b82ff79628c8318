"""Read what CDK synthesized: the stacks of a cloud assembly, and a hash that tells a change."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# What no synthesis reads. Everything else counts, so that a new source is never forgotten.
NOT_SOURCES: Final = ("bench", "docs", "node_modules", "tests", "__pycache__")


@dataclass(frozen=True)
class SynthesizedStack:
    """One stack of the assembly: its name in CloudFormation and its template."""

    name: str
    template: dict[str, Any]


def read_stacks(assembly: Path) -> list[SynthesizedStack]:
    """Return every stack of an assembly, those of CDK stages below it included."""
    stacks = []
    for manifest in sorted(assembly.rglob("manifest.json")):
        artifacts = json.loads(manifest.read_text()).get("artifacts", {})
        for artifact_id, artifact in artifacts.items():
            if artifact["type"] == "aws:cloudformation:stack":
                properties = artifact["properties"]
                template = json.loads((manifest.parent / properties["templateFile"]).read_text())
                stacks.append(SynthesizedStack(properties.get("stackName", artifact_id), template))
    return stacks


def content_hash(stacks: list[SynthesizedStack]) -> str:
    """Hash what would be deployed; a template names its assets by their own content's hash."""
    content = sorted((stack.name, json.dumps(stack.template, sort_keys=True)) for stack in stacks)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def source_hash(app_directory: Path) -> str:
    """Hash the files that a synthesis may read: when they are the same, its result is."""
    digest = hashlib.sha256()
    for path in _sources(app_directory):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(app_directory)} {content}\n".encode())
    return digest.hexdigest()


def _sources(app_directory: Path) -> Iterator[Path]:
    for directory, below, files in os.walk(app_directory):
        below[:] = sorted(name for name in below if _may_be_source(name))
        yield from (Path(directory, name) for name in sorted(files) if not name.startswith("."))


def _may_be_source(directory: str) -> bool:
    return directory not in NOT_SOURCES and not directory.startswith((".", "cdk.out"))


def save_deployed(directory: Path, stacks: list[SynthesizedStack]) -> None:
    """Keep the templates that were deployed, to compare the next ones with."""
    directory.mkdir(parents=True, exist_ok=True)
    for stack in stacks:
        (directory / f"{stack.name}.json").write_text(json.dumps(stack.template))


def read_deployed(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the templates that were deployed last, by the name of their stack."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))}

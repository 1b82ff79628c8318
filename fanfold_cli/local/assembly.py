"""What CDK synthesized: the stacks of a cloud assembly, and hashes to detect changes."""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fanfold_cli.terminal import ExpectedError

# The sources of the app: what CDK runs, imports and bundles, and the versions of its tools. Other
# files in the checkout, such as logs, do not change the stack.
SOURCES: Final = (
    "app.py",
    "cdk.json",
    "cdk.context.json",
    "infra",
    "fanfold",
    "functions",
    "requirements.txt",
    "requirements-boto3.txt",
    "requirements-dev.txt",
    "requirements-uv.txt",
    "package-lock.json",
)


@dataclass(frozen=True)
class SynthesizedStack:
    name: str  # in CloudFormation
    template: dict[str, Any]
    is_protected: bool = False  # from deletion
    bootstrap_version: int = 0  # the lowest version of CDK's bootstrap stack that it needs


def read_stacks(assembly: Path) -> list[SynthesizedStack]:
    """Return every stack of an assembly, including the stacks of CDK stages."""
    stacks = []
    for manifest in sorted(assembly.rglob("manifest.json")):
        artifacts = json.loads(manifest.read_text()).get("artifacts", {})
        for artifact_id, artifact in artifacts.items():
            if artifact["type"] == "aws:cloudformation:stack":
                properties = artifact["properties"]
                template = json.loads((manifest.parent / properties["templateFile"]).read_text())
                stacks.append(
                    SynthesizedStack(
                        properties.get("stackName", artifact_id),
                        template,
                        properties.get("terminationProtection", False),
                        properties.get("requiresBootstrapStackVersion", 0),
                    )
                )
    return stacks


def content_hash(stacks: list[SynthesizedStack]) -> str:
    """Hash the templates; they name assets by the hashes of their content."""
    content = sorted((stack.name, json.dumps(stack.template, sort_keys=True)) for stack in stacks)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def source_hash(app_directory: Path) -> str:
    """Hash every file that a synthesis may read: equal hashes mean equal assemblies.

    Raises `ExpectedError` if a file cannot be read.
    """
    digest = hashlib.sha256()
    for path in _sources(app_directory):
        try:
            # A broken link has no content, but its target may appear later.
            content = path.read_bytes() if path.exists() else str(path.readlink()).encode()
        except OSError as error:
            raise ExpectedError(
                f"{path} cannot be read: {error.strerror}. It is a source of the app, so nothing "
                "was deployed."
            ) from None
        name, hashed = path.relative_to(app_directory), hashlib.sha256(content).hexdigest()
        digest.update(f"{name} {hashed}\n".encode())
    return digest.hexdigest()


def _sources(app_directory: Path) -> Iterator[Path]:
    for source in SOURCES:
        path = app_directory / source
        if path.is_file():
            yield path
        for directory, below, files in os.walk(path):
            below[:] = sorted(name for name in below if not name.startswith((".", "__pycache__")))
            yield from (Path(directory, name) for name in sorted(files) if name[0] != ".")


def save_deployed(directory: Path, stacks: list[SynthesizedStack]) -> None:
    """Save the deployed templates, to compare the next ones with them."""
    directory.mkdir(parents=True, exist_ok=True)
    for stack in stacks:
        (directory / f"{stack.name}.json").write_text(json.dumps(stack.template))


def read_deployed(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the templates that `save_deployed` kept, by the names of their stacks."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))}

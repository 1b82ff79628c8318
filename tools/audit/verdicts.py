"""Turns the output of pip-audit and npm, and curl's list of vulnerabilities, into verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

# Faults that do not affect Fanfold, by id, each with the reason.
ACCEPTED: Mapping[str, str] = {}
# The most names in one sentence.
_NAMED = 5


class Verdict(NamedTuple):
    """The known faults of one lock, or why they could not be looked up."""

    what: str
    faults: tuple[str, ...] = ()
    unchecked: str = ""

    @property
    def sentence(self) -> str:
        said = ""
        if self.faults:
            said = f"{self.what}: {len(self.faults)} known.\n" + "\n".join(
                f"  {fault}" for fault in self.faults
            )
        if self.unchecked:
            said += "\n" * bool(said) + f"{self.what}: NOT CHECKED. {self.unchecked}"
        return said or f"{self.what}: no fault is known."


def exit_code(verdicts: Iterable[Verdict]) -> int:
    """1 if a fault is known, 2 if something could not be checked, 0 if all is well."""
    every = list(verdicts)
    if any(each.faults for each in every):
        return 1
    return 2 if any(each.unchecked for each in every) else 0


def of_pip(what: str, answer: str, complaint: str) -> Verdict:
    """The verdict on a lock, from the JSON of pip-audit (`answer`) and its stderr (`complaint`)."""
    content = _object(answer)
    if content is None:
        return Verdict(what, unchecked=f"pip-audit failed: {_last(complaint)}")
    faults, skipped = [], []
    for package in content.get("dependencies", ()):
        if "skip_reason" in package:
            skipped.append(str(package["name"]))
        faults += [
            f"{package['name']} {package['version']}: {fault['id']}"
            + (f", fixed in {', '.join(fixed)}" if (fixed := fault.get("fix_versions")) else "")
            for fault in package.get("vulns", ())
            if not {fault["id"], *fault.get("aliases", ())} & ACCEPTED.keys()
        ]
    unchecked = ""
    if skipped:
        named = ", ".join(skipped[:_NAMED]) + (" and others" if len(skipped) > _NAMED else "")
        unchecked = f"The index knows nothing about {len(skipped)} packages: {named}."
    return Verdict(what, tuple(faults), unchecked)


def of_npm(what: str, answer: str, complaint: str) -> Verdict:
    """The verdict on a package-lock.json, from the output of `npm audit --json`."""
    content = _object(answer)
    if content is None or "vulnerabilities" not in content:
        said = (content or {}).get("message") or _last(complaint)
        return Verdict(what, unchecked=f"npm failed: {_ended(str(said))}")
    faults = [
        f"{name} {package.get('range', '')}: {package.get('severity', 'unknown')}, {via['url']}"
        for name, package in sorted(content["vulnerabilities"].items())
        for via in package.get("via", ())
        if isinstance(via, dict) and via["url"].rpartition("/")[2] not in ACCEPTED
    ]
    return Verdict(what, tuple(faults))


def of_curl(what: str, known: Iterable[Mapping[str, Any]], version: str) -> Verdict:
    """The verdict on a libcurl of this version, from curl's own list in OSV format."""
    faults = [
        f"{fault['id']}: {fault.get('summary', '')}"
        for fault in known
        if fault["id"] not in ACCEPTED
        and any(version in each.get("versions", ()) for each in fault.get("affected", ()))
    ]
    return Verdict(what, tuple(faults))


def _object(text: str) -> dict[str, Any] | None:
    try:
        content = json.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _last(complaint: str) -> str:
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    return _ended(lines[-1]) if lines else "it said nothing."


def _ended(said: str) -> str:
    return said if said.endswith(".") else f"{said}."

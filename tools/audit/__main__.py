"""`python -m tools.audit`: known vulnerabilities of all locked packages, and of pycurl's libcurl.

Exit code 1 if there are any; 2 if there are none, but not all packages could be checked.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pycurl

from tools.audit.verdicts import Verdict, exit_code, of_curl, of_npm, of_pip

ROOT = Path(__file__).resolve().parents[2]
# The last two hold the first, too; what runs on Lambda is looked up by itself.
PYTHON_LOCKS = {
    "requirements.txt": "what runs on Lambda",
    "requirements-boto3.txt": "what runs there with transport=boto3",
    "requirements-dev.txt": "what builds and tests it",
    "requirements-uv.txt": "what installs that",
}
CURL_FAULTS = "https://curl.se/docs/vuln.json"
SECONDS = 300


def verdicts() -> Iterator[Verdict]:
    for lock, role in PYTHON_LOCKS.items():
        yield python_lock(lock, f"{lock} ({role})")
    for folder in npm_folders():
        yield npm_lock(folder)
    yield bundled_curl()


def python_lock(lock: str, what: str) -> Verdict:
    # The lock is complete, so nothing is resolved or installed.
    options = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off"]
    command = [sys.executable, "-P", "-m", "pip_audit", "--requirement", str(ROOT / lock), *options]
    return of_pip(what, *_said(command, ROOT))


def npm_folders() -> list[Path]:
    """The folders with a package-lock.json."""
    found = ROOT.glob("**/package-lock.json")
    return sorted(path.parent for path in found if "node_modules" not in path.parts)


def npm_lock(folder: Path) -> Verdict:
    what = f"{(folder / 'package-lock.json').relative_to(ROOT)} (tools and libraries of Node)"
    return of_npm(what, *_said(["npm", "audit", "--package-lock-only", "--json"], folder))


def bundled_curl() -> Verdict:
    """pip-audit knows pycurl, but not the libraries in its wheel."""
    _, version, *_ = pycurl.version_info()
    what = f"libcurl {version} (in the wheel of pycurl {metadata.version('pycurl')})"
    try:
        with urllib.request.urlopen(CURL_FAULTS, timeout=30) as answer:
            known = json.load(answer)
    except (OSError, ValueError) as error:
        return Verdict(what, unchecked=f"{CURL_FAULTS} cannot be read: {error}.")
    return of_curl(what, known, version)


def _said(command: list[str], folder: Path) -> tuple[str, str]:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    return done.stdout, done.stderr


def main() -> int:
    found = []
    for each in verdicts():
        print(each.sentence, flush=True)
        found.append(each)
    print(f"Bundled with pycurl: {pycurl.version}. SECURITY.md says who watches these.")
    return exit_code(found)


if __name__ == "__main__":
    sys.exit(main())

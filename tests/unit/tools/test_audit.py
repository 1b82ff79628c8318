"""What `make audit` says of the answers that it gets, and the list of licences."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from tools.audit import licences, verdicts
from tools.audit.verdicts import Verdict, exit_code, of_curl, of_npm, of_pip

FAULT = {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-0001"], "fix_versions": ["1.1", "2.0"]}


def pip(*packages: dict[str, Any]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def package(**more: Any) -> dict[str, Any]:
    return {"name": "wheel", "version": "1.0", "vulns": [], **more}


NPM_FAULT = {"severity": "high", "range": "<2", "via": [{"url": "https://x.example/GHSA-1"}, "y"]}
NPM = json.dumps({"vulnerabilities": {"left-pad": NPM_FAULT}})
CURL: list[dict[str, Any]] = [
    {"id": "CURL-1", "summary": "A leak", "affected": [{"versions": ["8.22.0", "8.23.0"]}]},
    {"id": "CURL-2", "summary": "Another", "affected": [{"versions": ["8.22.0"]}]},
]


@pytest.mark.parametrize(
    ("verdict", "said", "code"),
    [
        (of_pip("lock", pip(package()), ""), "lock: no fault is known.", 0),
        (
            of_pip("lock", pip(package(vulns=[FAULT])), ""),
            "lock: 1 known.\n  wheel 1.0: PYSEC-2026-1, fixed in 1.1, 2.0",
            1,
        ),
        (
            of_pip("lock", pip({"name": "wheel", "skip_reason": "not found"}), ""),
            "lock: NOT CHECKED. The index knows nothing about 1 packages: wheel.",
            2,
        ),
        (
            of_pip("lock", "", "WARNING: x\nERROR: the index cannot be reached\n"),
            "lock: NOT CHECKED. pip-audit failed: ERROR: the index cannot be reached.",
            2,
        ),
        (of_npm("lock", '{"vulnerabilities": {}}', ""), "lock: no fault is known.", 0),
        (
            of_npm("lock", NPM, ""),
            "lock: 1 known.\n  left-pad <2: high, https://x.example/GHSA-1",
            1,
        ),
        (
            of_npm("lock", '{"message": "405 Method Not Allowed", "error": {}}', ""),
            "lock: NOT CHECKED. npm failed: 405 Method Not Allowed.",
            2,
        ),
        (of_npm("lock", "", ""), "lock: NOT CHECKED. npm failed: it said nothing.", 2),
        (of_curl("libcurl", CURL, "8.23.0"), "libcurl: 1 known.\n  CURL-1: A leak", 1),
        (of_curl("libcurl", CURL, "8.24.0"), "libcurl: no fault is known.", 0),
    ],
)
def test_an_answer_is_a_sentence_and_an_exit_code(verdict: Verdict, said: str, code: int) -> None:
    assert verdict.sentence == said
    assert exit_code([Verdict("another"), verdict]) == code


def test_a_known_fault_outweighs_what_was_not_checked() -> None:
    assert exit_code([Verdict("a", unchecked="Why."), Verdict("b", ("fault",))]) == 1


def test_every_accepted_fault_has_a_reason() -> None:
    assert all(reason.endswith(".") for reason in verdicts.ACCEPTED.values())


# Licences


def test_the_list_of_licences_is_todays() -> None:
    assert licences.PAGE.read_text() == licences.page(), "`make documents` writes it anew"


def test_an_unreviewed_licence_fails() -> None:
    for licence in ("GPL-3.0-only", "Proprietary", "GPL-2.0-only AND MIT", "MIT AND SSPL-1.0"):
        with pytest.raises(KeyError, match="new is under"):
            _ = licences.Part("new", licence).meaning
    assert not licences.Part("either", "GPL-3.0-only OR MIT").meaning


@pytest.mark.skipif(sys.platform != "linux", reason="The wheel for Linux is what runs on Lambda.")
def test_every_library_in_the_wheel_of_pycurl_is_on_the_list() -> None:
    assert licences.bundled() == sorted(licences.LIBRARIES)

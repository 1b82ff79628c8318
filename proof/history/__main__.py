"""`python -m proof.history FILE...`: judge a stage by the history in its logs (docs/verified.md).

Exit status 1 if a page contradicts the promise, and 2 if a line cannot be read, or there is no page
to judge.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from proof.history.judge import LAG_MS, SENTENCES, Judged, judge
from proof.history.told import SKEW_MS, BadLine, read

BROKEN, CANNOT_JUDGE = 1, 2
# Of the findings; `--json` has all.
SHOWN = 20
ROWS = {
    "posts": "posts accepted",
    "complete": "of them delivered",
    "follows": "follows and unfollows",
    "pages": "pages",
    "shown": "posts on pages",
    "owed": "of posts due: the reader surely follows, so the page must show them",
    "hidden": "the reader surely does not follow, so the page must not",
    "unsure": "a request overlaps, so both are right",
    "unknown": "posts on pages from before the history",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge files, or standard input without any; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m proof.history", description=__doc__)
    parser.add_argument("files", nargs="*", metavar="FILE", type=Path, help="logs of functions")
    parser.add_argument("--whole", action="store_true", help="it begins with the stage's first day")
    parser.add_argument("--skew", type=int, default=SKEW_MS, help="of clocks, in ms")
    parser.add_argument("--lag", type=int, default=LAG_MS, help="until a page shows, in ms")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    given = parser.parse_args(arguments)
    try:
        texts = [(str(file), file.read_text()) for file in given.files]
        told = read(texts or [("standard input", sys.stdin.read())], skew_ms=given.skew)
    except (BadLine, OSError, UnicodeDecodeError) as error:
        print(error, file=sys.stderr)
        return CANNOT_JUDGE
    judged = judge(told, lag_ms=given.lag, is_whole=given.whole)
    print(as_json(judged) if given.json else table(judged))
    if judged.findings:
        return BROKEN
    return 0 if told.pages else CANNOT_JUDGE


def as_json(judged: Judged) -> str:
    counts = {name: judged.counts[name] for name in ROWS}
    findings = [each._asdict() for each in judged.findings]
    return json.dumps({**counts, "findings": findings}, indent=2)


def table(judged: Judged) -> str:
    """The counts, the first findings, and a verdict."""
    told = [f"{judged.counts[name]:>12,}  {what}" for name, what in ROWS.items()]
    told += [f"BROKEN: {each}" for each in judged.findings[:SHOWN]]
    if not judged.counts["pages"]:
        return "\n".join([*told, "There is no page to judge: was history=true deployed?"])
    kinds = {each.kind for each in judged.findings}
    broken = "; ".join(SENTENCES[kind] for kind in sorted(kinds))
    verdict = f"{len(judged.findings):,} contradictions: {broken}." if kinds else "It holds."
    return "\n".join([*told, verdict])


if __name__ == "__main__":
    sys.exit(main())

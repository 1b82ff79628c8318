"""`python -m proof.bench [NAME] [--short] [--json] [--save]`: one benchmark, or all of them."""

from __future__ import annotations

import argparse
import sys

from proof.bench import report, runner


def main(arguments: list[str] | None = None) -> int:
    known = runner.names()
    parser = argparse.ArgumentParser(prog="python -m proof.bench", description=__doc__)
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(known))
    parser.add_argument("--short", action="store_true", help="fewer rounds of the same work")
    parser.add_argument("--json", action="store_true", help="print one JSON object a figure")
    parser.add_argument("--save", action="store_true", help="keep result and chart in its folder")
    asked = parser.parse_args(arguments)
    if asked.name not in (None, *known):
        print(f"There is no bench '{asked.name}'; there are {', '.join(known)}.", file=sys.stderr)
        return 2
    found = []
    for name in [asked.name] if asked.name else known:
        result = runner.run(name, short=asked.short)
        found.append(result)
        if asked.save:
            report.save(result, runner.folder(name))
        if asked.json:
            print(*report.json_lines([result]), sep="\n", flush=True)
    if not asked.json:
        report.print_table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())

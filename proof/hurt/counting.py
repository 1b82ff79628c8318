"""The verdict of `fanfold demo --hurt`: readers' rows against the graph and what was accepted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from fanfold.aws import scans
from fanfold.ids import split_sort_key
from fanfold_cli.commands.demo import Run
from fanfold_cli.console.views import Verdict

Pair = tuple[str, str]  # user and ref_id


def rows(run: Run) -> Counter[Pair]:
    """How many rows of the timelines each user has of each post of the run."""
    found: Counter[Pair] = Counter()
    pages = scans.pages(
        run.deployment.client("dynamodb"),
        TableName=run.deployment.settings().timelines_table,
        ProjectionExpression="user_id, sort_key",
        ConsistentRead=True,
    )
    for page in pages:
        for item in page["Items"]:
            found[item["user_id"]["S"], split_sort_key(item["sort_key"]["S"])[1]] += 1
    return found


def read_by(run: Run, users: Iterable[str]) -> dict[str, Counter[str]]:
    """What each of these users sees, by the API: how often each post."""
    return {
        user: Counter(entry["ref_id"] for entry in run.api(user).timeline.older(hydrate=False))
        for user in users
    }


def judge(
    expected: set[Pair],
    found: Counter[Pair],
    seen: Mapping[str, Counter[str]],
    *,
    seconds: float,
    killed: int,
    refused: int,
    copies: int,
) -> Verdict:
    """Compare what must be there with every row, and with what some readers see. Pure."""
    delivered = len(expected & found.keys())
    twice = sum(count - 1 for count in found.values())
    twice += sum(count - 1 for each in seen.values() for count in each.values())
    wrong = [
        user
        for user, each in seen.items()
        if each.keys() != {ref_id for whose, ref_id in expected if whose == user}
    ]
    unexpected = len(found.keys() - expected)
    also = f", {unexpected:,} unexpected" if unexpected else ""
    also += f", {len(wrong):,} timelines wrong" if wrong else ""
    return Verdict(
        expected=len(expected),
        delivered=delivered,
        unexpected=unexpected,
        twice=twice,
        wrong_readers=len(wrong),
        sentence=(
            f"demo: delivered {delivered:,} of {len(expected):,} entries in {seconds:.0f} s; "
            f"{_counted(killed, 'worker')} killed, {_counted(refused, 'batch')} refused, "
            f"{_counted(copies, 'copy')}, {len(expected) - delivered:,} lost, {twice:,} seen twice"
            f"{also}"
        ),
    )


def _counted(count: int, noun: str) -> str:
    plural = {"batch": "batches", "copy": "copies"}.get(noun, f"{noun}s")
    return f"{count:,} {noun if count == 1 else plural}"

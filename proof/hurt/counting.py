"""The verdict of `fanfold demo --hurt`, for its page and its last line."""

from __future__ import annotations

from fanfold_cli.console import views
from fanfold_cli.run.verdict import DOUBLED, EXTRA, MISCOUNTED, REPEATED, UNKNOWN, Verdict
from fanfold_cli.terminal import counted


def view(
    verdict: Verdict, *, seconds: float, killed: int, refused: int, copies: int
) -> views.Verdict:
    """The verdict as the page shows it, with the counts of faults."""
    faults = verdict.faults
    lost, twice = verdict.expected - verdict.right, faults[DOUBLED] + faults[REPEATED]
    unexpected, wrong = faults[EXTRA] + faults[UNKNOWN], len(verdict.wrong_readers)
    also = f", {unexpected:,} unexpected" if unexpected else ""
    also += f", {counted(wrong, 'timeline')} wrong" if wrong else ""
    also += f", {counted(faults[MISCOUNTED], 'count')} wrong" if faults[MISCOUNTED] else ""
    return views.Verdict(
        expected=verdict.expected,
        delivered=verdict.right,
        unexpected=unexpected,
        twice=twice,
        wrong_readers=wrong,
        wrong_counts=faults[MISCOUNTED],
        sentence=(
            f"demo: delivered {verdict.right:,} of {verdict.expected:,} entries in {seconds:.0f} "
            f"s; {counted(killed, 'worker')} killed, {counted(refused, 'batch', 'batches')} "
            f"refused, {counted(copies, 'copy', 'copies')}, {lost:,} lost, {twice:,} seen twice"
            f"{also}"
        ),
    )

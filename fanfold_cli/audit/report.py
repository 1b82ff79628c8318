"""What `fanfold audit` prints about an audit."""

from dataclasses import asdict
from typing import Any

from fanfold.audit import sampling
from fanfold.audit.audit import Report
from fanfold.audit.rule import Finding
from fanfold_cli.cost.prices import PRICES
from fanfold_cli.terminal import counted, dollars, print_examples, print_result, say, text_table

MEANINGS = {
    Finding.ENTRY_MISSING: "readers without a post that they are owed",
    Finding.EDGE_MISSING: "the same, and their follow has no edge: run `fanfold doctor`",
    Finding.POST_MISSING: "delivered posts whose row is missing: restore the posts",
    Finding.OVERLOOKED: "posts in a channel that readers' pages leave out: run `fanfold doctor`",
    Finding.ANOTHERS: "entries whose ref_id is another post's",
    Finding.UNFOLLOWED: "entries shown without a follow: run `fanfold doctor`",
    Finding.BLOCKED: "follows under a block: run `fanfold doctor`",
    Finding.UNSURE: "young follows without an edge: run `fanfold doctor`",
}


def content(report: Report, units: float) -> dict[str, Any]:
    return {
        "pairs": report.pairs,
        "pairs_wanted": report.wanted,
        "entries": report.entries,
        "findings": {kind.value: report.counts[kind] for kind in MEANINGS},
        "examples": [asdict(each) for each in report.found],
        "repaired": report.repaired,
        "not_complete": dict(report.states),
        "missing_below": bound(report),
        "read_units": units,
        "dollars": PRICES.dynamodb(reads=units),
    }


def bound(report: Report) -> float | None:
    """The share of missing pairs that nothing found rules out; None if something was found."""
    return None if report.findings else sampling.most_missing(report.pairs)


def say_forecast(units: float) -> None:
    say(f"This reads about {_priced(units)}, if nothing is missing.")


def show(report: Report, units: float, *, repair: bool, post: str | None) -> None:
    if report.found:
        kinds = (
            (kind.value, f"{report.counts[kind]:,}", meaning)
            for kind, meaning in MEANINGS.items()
            if report.counts[kind]
        )
        print_result(text_table(("what", "found", "meaning"), kinds))
        examples = [(e.finding.value, e.post, e.publisher_id, e.user_id) for e in report.found]
        print_examples(("what", "post", "publisher", "reader"), examples, report.counts.total())
    for state, count in sorted(report.states.items()):
        say(f"Nothing is claimed of {counted(count, 'post')} {state}.")
    if report.posts_known > report.posts:
        chance = sampling.chance_to_find(1, report.posts_known, report.posts)
        say(
            f"Followers of {report.posts:,} of about {report.posts_known:,} posts were tried: one "
            f"wrongly complete post is found with {chance:.0%}."
        )
    if report.repaired:
        print_result(f"Wrote {counted(report.repaired, 'missing entry', 'missing entries')}.")
    elif report.counts[Finding.ENTRY_MISSING] and not repair:
        ref_id = post or next(
            each.post for each in report.found if each.finding is Finding.ENTRY_MISSING
        )
        say(f"`fanfold audit --post {ref_id} --repair` writes what is missing of a post.")
    read = f"Read {_priced(units)}."
    pairs = counted(report.pairs, "pair")
    if report.findings:
        print_result(f"{counted(report.findings, 'finding')} in {pairs}. {read}")
    elif post is not None:
        print_result(f"Every follower who is owed the post has it: {pairs}. {read}")
    elif report.pairs:
        share = sampling.most_missing(report.pairs)
        print_result(
            f"Nothing is missing. 95 %: fewer than 3/{report.pairs:,} of pairs are missing "
            f"({share:.2g}). {read}"
        )


def _priced(units: float) -> str:
    return f"{units:,.0f} units, {dollars(PRICES.dynamodb(reads=units))}"


def say_not_enough(report: Report, failure: str) -> None:
    reason = failure or "there are too few complete posts with followers"
    say(f"Not enough read: {report.pairs:,} of {report.wanted:,} pairs, because {reason}.")

"""Judges the rows of the timelines against the run's own record."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fanfold.ids import sort_key, split_sort_key
from fanfold_cli.terminal import counted
from proof.aws_verify.script import Post

# Of each fault, so that a report stays readable.
EXAMPLES = 5

MISSING = "missing"
EXTRA = "extra"
UNKNOWN = "unknown"
DOUBLED = "doubled"
WRONG = "wrong"

SENTENCES = {
    MISSING: ("row is missing", "rows are missing", "its user followed when it was published"),
    EXTRA: ("row is too many", "rows are too many", "its user did not follow its publisher"),
    UNKNOWN: ("row is of no known post", "rows are of no known post", "the run published no such"),
    DOUBLED: ("row is doubled", "rows are doubled", "the user has the post under another key too"),
    WRONG: ("row is wrong", "rows are wrong", "another publisher or time than was published"),
}


class Row(NamedTuple):
    """A row of the timelines table."""

    user: str
    sort_key: str
    publisher: str


@dataclass
class Verdict:
    expected: int
    right: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def note(self, kind: str, user: str, ref_id: str) -> None:
        self.faults[kind] += 1
        if len(self.examples[kind]) < EXAMPLES:
            self.examples[kind].append(f"{user} {ref_id}")

    def failures(self) -> Iterator[str]:
        """A sentence for each kind of fault."""
        for kind, (one, many, why) in SENTENCES.items():
            if self.faults[kind]:
                shown = "; ".join(self.examples[kind])
                yield f"{counted(self.faults[kind], one, many)} ({why}): {shown}"


def judge(posts: Mapping[str, Post], rows: Iterable[Row], *, prefix: str) -> Verdict:
    """Compare all rows of the table with the record.

    Rows that have nothing to do with the run are passed over: those of a post that it has not
    published, for a user whose id does not begin with `prefix`. A stage of its own has none.
    """
    seen: dict[str, set[str]] = {ref_id: set() for ref_id in posts}
    verdict = Verdict(expected=sum(len(post.followers) for post in posts.values()))
    for row in rows:
        ref_id = split_sort_key(row.sort_key)[1]
        post = posts.get(ref_id)
        if post is None:
            if row.user.startswith(prefix):
                verdict.note(UNKNOWN, row.user, ref_id)
        elif row.user not in post.followers:
            verdict.note(EXTRA, row.user, ref_id)
        elif row.user in seen[ref_id]:
            verdict.note(DOUBLED, row.user, ref_id)
        else:
            seen[ref_id].add(row.user)
            key = sort_key(post.published_at, ref_id)
            if (row.sort_key, row.publisher) == (key, post.publisher):
                verdict.right += 1
            else:
                verdict.note(WRONG, row.user, ref_id)
    for ref_id, post in posts.items():
        for user in sorted(post.followers - seen[ref_id]):
            verdict.note(MISSING, user, ref_id)
    return verdict

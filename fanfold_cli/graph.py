"""Follow graphs: made up with a heavy tail, or read from a file."""

import csv
import gzip
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fanfold.ids import is_id
from fanfold_cli.console import ExpectedError

# Followers fall off with the publisher's rank to this power, as they do where people choose whom
# to follow: the second has 0.44 of the first's, the twentieth 0.03.
TAIL = 1.2
# Of a file; any others are ignored.
COLUMNS = ("publisher", "follower")


@dataclass(frozen=True)
class Graph:
    """Who follows whom: `followers[publisher]` and `follows[user]` are the same edges twice."""

    followers: Mapping[str, frozenset[str]]

    @property
    def edges(self) -> int:
        """How many follows there are."""
        return sum(map(len, self.followers.values()))

    @property
    def follows(self) -> dict[str, list[str]]:
        """The same edges by user."""
        by_user: dict[str, list[str]] = defaultdict(list)
        for publisher, users in self.followers.items():
            for user in users:
                by_user[user].append(publisher)
        return dict(by_user)

    def largest(self) -> list[str]:
        """The publishers, the one with the most followers first."""
        return sorted(
            self.followers, key=lambda publisher: (-len(self.followers[publisher]), publisher)
        )


def heavy_tailed(*, publishers: int, most: int, seed: int, prefix: str = "") -> Graph:
    """A graph of so many publishers, the largest with `most` followers; the same for a seed.

    Ids begin with `prefix`, so that several graphs can be loaded side by side.
    """
    chance = random.Random(seed)
    users = [f"{prefix}reader-{number:05d}" for number in range(1, most + 1)]
    return Graph(
        {
            f"{prefix}publisher-{rank:02d}": frozenset(
                chance.sample(users, max(1, round(most / rank**TAIL)))
            )
            for rank in range(1, publishers + 1)
        }
    )


def read(path: Path) -> Graph:
    """Read a CSV file with the columns publisher and follower, plain or gzipped."""
    followers: dict[str, set[str]] = defaultdict(set)
    for publisher, follower in _edges(path):
        followers[publisher].add(follower)
    if not followers:
        raise ExpectedError(f"{path} holds no edges: it needs at least one line after its header.")
    return Graph({publisher: frozenset(users) for publisher, users in followers.items()})


def _edges(path: Path) -> Iterator[tuple[str, str]]:
    try:
        read_text = gzip.open if path.suffix == ".gz" else open
        with read_text(path, "rt", newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            columns = rows.fieldnames or ()
            if any(columns.count(name) != 1 for name in COLUMNS):
                raise _wrong_header(path, columns)
            for row in rows:
                publisher, follower = row["publisher"], row["follower"]
                if None in row or None in row.values():
                    raise ExpectedError(
                        f"{path}, line {rows.line_num}: it must have as many values as the first "
                        f"line, {len(columns)}. Is a comma or a quote amiss?"
                    )
                if not (is_id(publisher) and is_id(follower)):
                    raise ExpectedError(
                        f"{path}, line {rows.line_num}: {publisher!r} and {follower!r} must be "
                        "ids of 1 to 128 letters, digits and _ . : | @ + = -"
                    )
                yield publisher, follower
    except UnicodeDecodeError as error:
        is_gzip = _is_unnamed_gzip(path)
        reason = "Is it gzipped? Then its name must end in .gz." if is_gzip else str(error)
        raise ExpectedError(f"{path} is no text in UTF-8. {reason}") from error
    except (OSError, csv.Error, EOFError, zlib.error) as error:
        raise ExpectedError(f"{path} cannot be read as CSV: {error}") from error


def _is_unnamed_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix != ".gz" and file.read(2) == b"\x1f\x8b"


def _wrong_header(path: Path, columns: Sequence[str]) -> ExpectedError:
    if not columns:
        return ExpectedError(f"{path} is empty: its first line must be publisher,follower.")
    if set(COLUMNS) <= set(columns):
        return ExpectedError(f"{path} names a column twice in its first line.")
    wanted = f"{path} has no columns publisher and follower in its first line"
    if len(columns) == 1 and ";" in columns[0]:
        return ExpectedError(f"{wanted}: put commas between the columns, not semicolons.")
    if set(COLUMNS) <= {column.strip() for column in columns}:
        return ExpectedError(f"{wanted}: write the names without spaces around them.")
    return ExpectedError(f"{wanted}.")

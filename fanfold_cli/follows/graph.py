"""Follow graphs: random ones with a heavy tail, or read from a CSV file."""

import csv
import gzip
import random
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fanfold.contract import MAX_ID_CHARS
from fanfold.ids import is_id
from fanfold_cli.terminal import ExpectedError

# Followers fall with this power of the publisher's rank, as in social networks: the second has 0.44
# times the followers of the first, the twentieth 0.03 times.
TAIL = 1.2
# The columns of a file that are read.
COLUMNS = ("publisher", "follower")


@dataclass(frozen=True)
class Graph:
    followers: Mapping[str, frozenset[str]]

    @property
    def edges(self) -> int:
        return sum(map(len, self.followers.values()))

    @property
    def follows(self) -> dict[str, list[str]]:
        by_user: dict[str, list[str]] = defaultdict(list)
        for publisher, users in self.followers.items():
            for user in users:
                by_user[user].append(publisher)
        return dict(by_user)

    def largest(self) -> list[str]:
        """The publishers, by descending number of followers."""
        return sorted(
            self.followers, key=lambda publisher: (-len(self.followers[publisher]), publisher)
        )


def heavy_tailed(*, publishers: int, most: int, seed: int, prefix: str = "") -> Graph:
    """A random graph whose largest publisher has `most` followers; the same for the same seed.

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
        raise ExpectedError(f"{path} holds no edges: add at least one line after its header.")
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
                        f"{path}, line {rows.line_num}: it must have {len(columns)} values, like "
                        "the first line. Is a comma or a quote missing?"
                    )
                if not (is_id(publisher) and is_id(follower)):
                    raise ExpectedError(
                        f"{path}, line {rows.line_num}: {publisher!r} and {follower!r} must be "
                        f"ids of 1 to {MAX_ID_CHARS} letters, digits and _ . : | @ + = - alone."
                    )
                yield publisher, follower
    except UnicodeDecodeError as error:
        is_gzip = _is_unnamed_gzip(path)
        reason = "Is it gzipped? Then its name must end in .gz." if is_gzip else f"{error}."
        raise ExpectedError(f"{path} is not text in UTF-8. {reason}") from error
    except (OSError, csv.Error, EOFError, zlib.error) as error:
        raise ExpectedError(f"{path} cannot be read as CSV: {error}.") from error


def _is_unnamed_gzip(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix != ".gz" and file.read(2) == b"\x1f\x8b"


def _wrong_header(path: Path, columns: Sequence[str]) -> ExpectedError:
    if not columns:
        return ExpectedError(f"{path} is empty: its first line must be publisher,follower.")
    if set(COLUMNS) <= set(columns):
        return ExpectedError(f"{path} names a column twice in its first line: remove one of them.")
    wanted = f"{path} has no columns publisher and follower in its first line"
    if len(columns) == 1 and ";" in columns[0]:
        return ExpectedError(f"{wanted}: put commas between the columns, not semicolons.")
    if set(COLUMNS) <= {column.strip() for column in columns}:
        return ExpectedError(f"{wanted}: write the names without spaces around them.")
    return ExpectedError(f"{wanted}.")

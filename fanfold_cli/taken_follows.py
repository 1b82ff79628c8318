"""The file of what a repair by `fanfold doctor` took away, and how that is put back."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from fanfold import clock, times
from fanfold.doctor.findings import Difference, Pair, Snapshot
from fanfold.errors import BadInput, FanfoldError, TooManyFollows
from fanfold.follows.follow import Following
from fanfold.ids import is_id
from fanfold_cli import kept_file
from fanfold_cli.console import ExpectedError, failing_with
from fanfold_cli.progress import progress_bar

# `at` is when the difference was confirmed.
FIELDS = ("user_id", "publisher_id", "what", "at")
# Lines that are read, and put back, at a time.
PAGE = 1_000

# A put-back counts each follow again, though its loss has lowered no count: by the counts, a user
# may be at the limit.
BACK, ENDED, BEYOND = "put back", "ended by their users", "beyond the limit of their users"

Line = Mapping[str, Any]


def write(write_line: Callable[[Line], None], snapshot: Snapshot) -> None:
    values = (*snapshot.pair, snapshot.difference, times.to_text(clock.now_ms()))
    write_line(dict(zip(FIELDS, values, strict=True)))


def aside(path: Path) -> Iterator[tuple[Pair, Difference]]:
    """What `write` has written, in its order."""
    with path.open(encoding="ascii") as file:
        for line in map(json.loads, file):
            yield (line["user_id"], line["publisher_id"]), Difference(line["what"])


def put_back(
    following: Following, path: Path, *, place: str, threads: ThreadPoolExecutor
) -> tuple[Counter[str], list[str]]:
    """Follow again, for each line of the file; the count of each outcome, and users at their limit.

    A user who unfollowed since stays so. Every line is checked before the first one is put back.
    Raises `ExpectedError`; it is safe to do it again.
    """
    total = sum(1 for _ in _lines(path, place))
    done: Counter[str] = Counter()
    beyond: set[str] = set()
    lines = _lines(path, place)
    stopped = "Not all was put back; run it again: a follow that is back already stays as it is"
    with (
        progress_bar("Putting back", total=total, unit="follows") as bar,
        failing_with(stopped, FanfoldError),
    ):
        while page := list(islice(lines, PAGE)):
            outcomes = list(threads.map(lambda line: _put_back(following, line), page))
            done.update(outcomes)
            beyond |= {
                line["user_id"]
                for line, outcome in zip(page, outcomes, strict=True)
                if outcome == BEYOND
            }
            bar.advance(len(page))
    return done, sorted(beyond)


def _put_back(following: Following, line: Line) -> str:
    try:
        after = following.follow(
            line["user_id"], line["publisher_id"], asked_at=times.to_ms(line["at"]), by_message=True
        )
    except TooManyFollows:
        return BEYOND
    return BACK if after.is_active else ENDED


def _lines(path: Path, place: str) -> Iterator[Line]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield _checked(line, place=place, where=f"{path}, line {number}")
    except OSError as error:
        raise ExpectedError(f"{path} cannot be read: {error.strerror}.") from None


def _checked(line: bytes, *, place: str, where: str) -> Line:
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        content = None
    fields = (kept_file.STACK, *FIELDS)
    if not isinstance(content, dict) or set(content) != set(fields) or not _is_sound(content):
        raise ExpectedError(
            f"{where}: it is no line that `fanfold doctor --repair` writes. Nothing was put back; "
            "repair the file or take the line out."
        )
    kept_file.refuse_another_stack(content, place=place, where=where, undone="Nothing was put back")
    return content


def _is_sound(content: Line) -> bool:
    try:
        times.to_ms(str(content["at"]))
    except BadInput:
        return False
    ids = (content["user_id"], content["publisher_id"])
    return all(isinstance(each, str) and is_id(each) for each in ids)

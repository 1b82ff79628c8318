"""The file of follows and unfollows that a repair removed, and how they are put back.

Lines that are `orphaned` or `channel_extra` are follows; all others are unfollows.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any

from fanfold import clock, times
from fanfold.doctor.findings import TAKE_AWAY, Difference, Pair, Snapshot
from fanfold.errors import BadInput, BlockedByYou, FanfoldError, TooManyFollows
from fanfold.follows.follow import Following
from fanfold.ids import is_id
from fanfold_cli import kept_file
from fanfold_cli.progress import progress_bar
from fanfold_cli.terminal import ExpectedError, failing_with

# `at` is when the difference was confirmed.
FIELDS = ("user_id", "publisher_id", "what", "at")
# Lines that are put back at a time.
PAGE = 1_000

# A put-back counts each follow again, although its loss has not lowered the user's count: the count
# may reach the limit too early.
BACK, ENDED, BEYOND = "put back", "ended by either side", "beyond the limit of their users"
UNFOLLOWED, FOLLOWED = "unfollowed again", "followed again by their users"

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
    """Follow or unfollow again for each line; return the outcomes, and users at their limit.

    Later requests of the user stay in effect. All lines are checked before the first is put back.
    Raises `ExpectedError`; repeating it is safe.
    """
    total = sum(1 for _ in _lines(path, place))
    done: Counter[str] = Counter()
    beyond: set[str] = set()
    lines, stop = _lines(path, place), Event()
    stopped = "Not all was put back; run it again: a follow that is back already stays as it is"
    with (
        progress_bar("Putting back", total=total, unit="follows") as bar,
        failing_with(stopped, FanfoldError),
        _setting(stop),
    ):
        while page := list(islice(lines, PAGE)):
            # One thread for each user: all lines of a user write one row, and DynamoDB refuses
            # concurrent transactions.
            by_user = defaultdict[str, list[Line]](list)
            for line in page:
                by_user[line["user_id"]].append(line)
            users = threads.map(
                lambda lines: [_outcome(following, each) for each in lines if not stop.is_set()],
                by_user.values(),
            )
            for user_id, outcomes in zip(by_user, users, strict=True):
                done.update(outcomes)
                if BEYOND in outcomes:
                    beyond.add(user_id)
                bar.advance(len(outcomes))
    return done, sorted(beyond)


@contextmanager
def _setting(stop: Event) -> Iterator[None]:
    """Set the event when the block ends, so that no thread starts another line."""
    try:
        yield
    finally:
        stop.set()


def _outcome(following: Following, line: Line) -> str:
    is_follow = line["what"] in TAKE_AWAY
    # Whoever followed a private publisher was approved.
    ask = partial(following.follow, approves=True) if is_follow else following.unfollow
    pair = line["user_id"], line["publisher_id"]
    try:
        after = ask(*pair, asked_at=times.to_ms(line["at"]), by_message=True)
    except BlockedByYou:
        return ENDED
    except TooManyFollows:
        return BEYOND
    if is_follow:
        return BACK if after.is_active else ENDED
    return FOLLOWED if after.is_active else UNFOLLOWED


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
            f"{where}: `fanfold doctor --repair` writes no such line. Nothing was put back; "
            "repair the file or take the line out."
        )
    kept_file.refuse_another_stack(content, place=place, where=where, undone="Nothing was put back")
    return content


def _is_sound(content: Line) -> bool:
    try:
        times.to_ms(str(content["at"]))
    except BadInput:
        return False
    if content["what"] not in list(Difference):
        return False
    ids = (content["user_id"], content["publisher_id"])
    return all(isinstance(each, str) and is_id(each) for each in ids)

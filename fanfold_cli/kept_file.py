"""Files of what a command removes: one JSON object a line, on disk before the removal."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fanfold import clock, times
from fanfold_cli.terminal import ExpectedError

# The files hold posts and follows of users.
OWNER_ONLY = 0o600
# The field that names the stack, as questions do: a line must not go back to another stack.
STACK = "stack"


def default_path(what: str) -> Path:
    """A file in the working directory; its name has the time in seconds."""
    now = times.to_text(clock.now_ms()).partition(".")[0]
    return Path(f"{what}-{now.replace(':', '')}Z.jsonl")


def refuse_existing(path: Path) -> None:
    """Raise `ExpectedError` early, before any question."""
    if os.path.lexists(path):
        raise ExpectedError(
            f"{path} exists already and is never overwritten, so nothing was changed; name another "
            "file with --to."
        )


@contextmanager
def writing(path: Path, *, place: str) -> Iterator[Callable[[Mapping[str, Any]], None]]:
    """Create a file and yield a function that writes a line to it; raises `ExpectedError`.

    When the block has ended, the file survives a crash of this machine. If the block fails or
    writes nothing, there is no file.
    """
    refuse_existing(path)
    with _telling(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    # ASCII: JSON escapes the rest, even half a surrogate pair, which UTF-8 cannot hold.
    file = os.fdopen(descriptor, "w", encoding="ascii")

    def write(content: Mapping[str, Any]) -> None:
        with _telling(path):
            file.write(json.dumps({STACK: place, **content}) + "\n")

    try:
        yield write
        with _telling(path):
            file.flush()
            is_empty = not file.tell()
            os.fsync(file.fileno())
            file.close()
            if is_empty:
                path.unlink()
            _sync_folder(path.parent)
    except BaseException:
        with _telling(path):
            path.unlink(missing_ok=True)
            file.close()
        raise


def refuse_another_stack(
    content: Mapping[str, Any], *, place: str, where: str, undone: str
) -> None:
    """Raise `ExpectedError`, which contains `undone`, if a line is of another stack."""
    if content[STACK] != place:
        raise ExpectedError(
            f"{where}: it was written of {content[STACK]}, and this is {place}. {undone}: "
            f"name that stack with --stack, or change '{STACK}' in the file if you mean this one."
        )


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ExpectedError(
            f"{path} cannot be written, so nothing was taken away: {error.strerror}. Name another "
            "file with --to."
        ) from None


def _sync_folder(folder: Path) -> None:
    """Sync the folder entry, or a crash could lose the name of a file that is on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Drop dead letters: write them to a file that can be restored, and only then delete them."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from fanfold import contract, names
from fanfold.aws.dead_letters import CONTRACT, DeadLetter
from fanfold_cli import kept_file
from fanfold_cli.console import ExpectedError, ask, counted, failing_with, interrupted_with, say
from fanfold_cli.dlq import letter_file, move_tasks
from fanfold_cli.dlq.letters import Held, holding, not_found
from fanfold_cli.stack import Deployment

# What dropping a letter means, by what it is.
ORDER = "nothing is lost: SWEEP asks again for what is pending, or `fanfold fanout abandon` ends it"
BACKFILL = "a follower may miss posts from before the follow"
SETTLE = "then run `fanfold doctor --publisher PUBLISHER`: edges may differ from the follow"
WISH = "a wish that was accepted is lost for good"
BROKEN = "refused by the contract, so nothing was accepted; tell the sender"
UNKNOWN = "nothing here reads such a message; ask its sender what it was"


@dataclass(frozen=True)
class Dropped:
    file: Path | None  # None if there was nothing to write
    dropped: list[DeadLetter]
    kept: list[DeadLetter]  # those that SQS refused to delete
    missing: list[str]  # ids that no queue had
    held: dict[str, int]  # about how many somebody else took, by queue; of a whole queue


def drop(
    deployment: Deployment,
    queues: Collection[names.Queue],
    ids: Collection[str] | None,
    *,
    file: Path,
    yes: bool,
) -> Dropped:
    """Drop the letters with these ids, or all of these queues with None.

    Raises `ExpectedError`; then nothing was dropped, or the file holds what was.
    """
    kept_file.refuse_existing(file)
    with (
        interrupted_with("nothing was dropped."),
        failing_with("The dead letters cannot be read, so nothing was dropped"),
        holding(deployment, queues, ids) as found,
    ):
        held = [each for each in found if each.letters]
        missing = not_found(ids, held)
        if not held:
            return Dropped(None, [], [], missing, _missed(found, ids))
        for each in held:
            move_tasks.refuse_while_running(deployment, each.queue)
        letters = [(each.queue, letter) for each in held for letter in each.oldest_first()]
        _say_what_it_means([letter for _, letter in letters])
        say(f"They are first written to {file}; `fanfold dlq restore` sends them back from there.")
        ask(f"Drop {counted(len(letters), 'letter')}?", place=deployment.place, yes=yes)
        for each in held:
            each.check_time()
        letter_file.write(file, letters, place=deployment.place)
        where = "those that were not dropped are still in their queue"
        with (
            interrupted_with(
                f"{file} holds all letters, and {where}. Run the command again, with another file."
            ),
            failing_with(
                f"Not all letters were dropped; {file} holds them all, and {where}. Run the "
                "command again, with another file. The error"
            ),
        ):
            dropped = _deleted(held, file)
            hidden = _missed(found, ids)
        kept = [letter for each in held for letter in each.oldest_first()]
    return Dropped(file, dropped, kept, missing, hidden)


def _missed(found: Iterable[Held], ids: Collection[str] | None) -> dict[str, int]:
    if ids is not None:
        return {}  # what was named and not found is said by its id
    return {each.name: count for each in found if (count := each.missed())}


def _deleted(held: Iterable[Held], file: Path) -> list[DeadLetter]:
    dropped: list[DeadLetter] = []
    try:
        for each in held:
            for letter in each.delete(each.oldest_first()):
                dropped.append(letter)  # noqa: PERF402 - counts whatever ends it
    except ExpectedError as late:
        raise ExpectedError(
            f"{late} Dropped before: {counted(len(dropped), 'letter')}; {file} holds all that were "
            "to go, so name another file then."
        ) from None
    return dropped


def _say_what_it_means(letters: list[DeadLetter]) -> None:
    kinds = Counter((_meaning(letter), letter.type or "of no known type") for letter in letters)
    for (meaning, type_), count in sorted(kinds.items()):
        say(f"{counted(count, 'letter')} ({type_}): {meaning}.")


def _meaning(letter: DeadLetter) -> str:
    if letter.kind == CONTRACT and letter.type in (*contract.ORDERS, *contract.EVENTS):
        return BROKEN
    if letter.type == contract.RELATION_BACKFILL:
        return BACKFILL
    if letter.type == contract.RELATION_SETTLE:
        return SETTLE
    if letter.type in contract.ORDERS:
        return ORDER
    return WISH if letter.type in contract.EVENTS else UNKNOWN

"""Drop dead letters: save them to a file, then delete them. Restore them from the file."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fanfold import contract, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import CONTRACT, MAX_MESSAGE_BYTES, DeadLetter
from fanfold.aws.senders import chain
from fanfold.messages import first_message_id
from fanfold_cli import kept_file
from fanfold_cli.dlq import move_tasks
from fanfold_cli.dlq.letters import MAX_LETTERS, QUEUES, Held, holding, not_found
from fanfold_cli.dlq.redriving import send_back, why_it_stays
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, ask, counted, failing_with, interrupted_with, say

# What dropping a letter means, by its kind.
PENDING = "nothing is lost: SWEEP resends what is pending, or `fanfold fanout abandon` ends it"
BACKFILL = "a follower may miss posts from before the follow"
SETTLE = "then run `fanfold doctor --publisher PUBLISHER`: edges may differ from the follow"
OPEN = "requests keep waiting: run `fanfold doctor --publisher PUBLISHER --repair`"
LOST = "a request that was accepted is lost for good"
BROKEN = "refused by the contract, so nothing was accepted; tell the sender"
UNKNOWN = "nothing here reads such a message; ask its sender what it was"
# The fields of each line of a file.
FIELDS = ("queue", "id", "group", "attributes", "body")
# What SQS accepts as a body and as a group, by its API reference ("SendMessage").
BODY = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
GROUP = re.compile("[!-~]{0,128}")

Letters = list[tuple[names.Queue, DeadLetter]]


@dataclass(frozen=True)
class Dropped:
    file: Path | None  # None if no letter was found
    dropped: list[DeadLetter]
    kept: list[DeadLetter]  # those that SQS refused to delete
    missing: list[str]  # ids that no queue had
    held: dict[str, int]  # about how many others hold, by queue; only without ids


def drop(
    deployment: Deployment,
    queues: Collection[names.Queue],
    ids: Collection[str] | None,
    *,
    file: Path,
    yes: bool,
) -> Dropped:
    """Drop the letters with these ids; with None, all letters of these queues.

    Raises `ExpectedError`; then nothing was dropped, or the file holds all that was.
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
        write_file(file, letters, place=deployment.place)
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
        return {}  # ids that were not found are reported instead
    return {each.name: count for each in found if (count := each.missed())}


def _deleted(held: Iterable[Held], file: Path) -> list[DeadLetter]:
    dropped: list[DeadLetter] = []
    try:
        for each in held:
            for letter in each.delete(each.oldest_first()):
                dropped.append(letter)  # noqa: PERF402 - counts whatever ends it
    except ExpectedError as late:
        raise ExpectedError(
            f"{late} {counted(len(dropped), 'letter')} had been dropped. {file} holds all letters, "
            "so name another file then."
        ) from None
    return dropped


def _say_what_it_means(letters: list[DeadLetter]) -> None:
    kinds = Counter((_meaning(letter), letter.type or "of no known type") for letter in letters)
    for (meaning, type_), count in sorted(kinds.items()):
        say(f"{counted(count, 'letter')} ({type_}): {meaning}.")


def _meaning(letter: DeadLetter) -> str:
    if letter.kind == CONTRACT and letter.type in (*contract.COMMANDS, *contract.EVENTS):
        return BROKEN
    if letter.type == contract.RELATION_BACKFILL:
        return BACKFILL
    if letter.type == contract.RELATION_SETTLE:
        return SETTLE
    if letter.type == contract.RELATION_OPEN:
        return OPEN
    if letter.type in contract.COMMANDS:
        return PENDING
    return LOST if letter.type in contract.EVENTS else UNKNOWN


def restore(
    deployment: Deployment, letters: Letters, *, retention_days: int
) -> tuple[int, Counter[str]]:
    """Send the letters of a file back; return how many were sent, and how many stayed, by reason.

    Letters that break the contract are sent too: the operator wants to retry them.
    """
    sqs, sent, stayed = deployment.client("sqs"), 0, Counter[str]()
    with progress_bar("Restoring", total=len(letters), unit="letters") as bar:
        for start in range(0, len(letters), dead_letters.PAGE):
            page = letters[start : start + dead_letters.PAGE]
            going = defaultdict(list)
            for queue, letter in page:
                why = why_it_stays(replace(letter, kind=""), retention_days=retention_days)
                if why:
                    stayed[why] += 1
                else:
                    going[queue.url_output].append(letter)
            again = (
                f"Lines {start + 1:,} to {start + len(page):,} were not all sent back, and nothing "
                "after them. Run the command again: a letter that is sent twice does no harm."
            )
            with failing_with(f"{again} The error"):
                for output, some in going.items():
                    taken = send_back(sqs, deployment.output(output), some)
                    if len(taken) < len(some):
                        raise ExpectedError(f"{again} SQS refused some.")
                    sent += len(taken)
            bar.reach(start + len(page))
    return sent, stayed


def write_file(path: Path, letters: Letters, *, place: str) -> None:
    """Write letters to a new file and sync it to disk; raises `ExpectedError`."""
    with kept_file.writing(path, place=place) as write_line:
        for queue, letter in letters:
            write_line(_content(queue, letter))


def read_file(path: Path, *, place: str) -> Letters:
    """All letters of a file.

    Raises `ExpectedError` with the number of a line that is malformed or of another stack.
    """
    try:
        # An editor may have left blank lines at the end.
        lines = path.read_bytes().rstrip().splitlines()
    except OSError as error:
        raise ExpectedError(f"{path} cannot be read: {error.strerror}.") from None
    if len(lines) > MAX_LETTERS:
        raise ExpectedError(
            f"{path} has {counted(len(lines), 'line')}, and this command takes up to "
            f"{MAX_LETTERS:,}; nothing was sent. Cut it with `split -l {MAX_LETTERS}`, and "
            "restore each part."
        )
    return [
        _letter(line, place=place, where=f"{path}, line {number}")
        for number, line in enumerate(lines, 1)
    ]


def _content(queue: names.Queue, letter: DeadLetter) -> dict[str, Any]:
    attributes = {
        "sent_at": str(letter.sent_at),
        contract.FIRST_SENT_AT: str(letter.first_sent_at),
        contract.FIRST_MESSAGE_ID: letter.first_message_id,
        contract.BODY_SHA256: letter.sha256,
        contract.FIRST_SENDERS: letter.senders,
        "receives": str(letter.receives),
        "kind": letter.kind,
        "reason": letter.reason,
    }
    values = (queue.lane, letter.message_id, letter.group, attributes, letter.body)
    return dict(zip(FIELDS, values, strict=True))


class _Malformed(Exception):
    """What is wrong with a line of a file."""


def _letter(line: bytes, *, place: str, where: str) -> tuple[names.Queue, DeadLetter]:
    """Raises `ExpectedError` that says `where` the line is."""
    try:
        content = _parsed(line)
        kept_file.refuse_another_stack(content, place=place, where=where, undone="Nothing was sent")
        queue = QUEUES.get(content["queue"])
        if queue is None:
            raise _Malformed(f"'queue' must be one of {', '.join(QUEUES)}")
        letter = _dead_letter(content)
        _check_sendable(letter)
    except _Malformed as fault:
        raise ExpectedError(
            f"{where}: {fault}. Nothing was sent; repair the file or take the line out."
        ) from None
    return queue, letter


def _parsed(line: bytes) -> dict[str, Any]:
    """The object in a line; all its values and attributes are strings."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise _Malformed("it is not JSON") from None
    fields = (kept_file.STACK, *FIELDS)
    if not isinstance(content, dict) or set(content) != set(fields):
        raise _Malformed(f"it must be an object with the fields {', '.join(fields)}")
    attributes = content["attributes"]
    texts = [content[name] for name in fields if name != "attributes"]
    if not isinstance(attributes, dict) or not all(
        isinstance(each, str) for each in (*texts, *attributes.values())
    ):
        raise _Malformed("'attributes' must be an object, and all values must be strings")
    return content


def _dead_letter(content: dict[str, Any]) -> DeadLetter:
    if not re.fullmatch(contract.MESSAGE_ID_PATTERN, content["id"]):
        raise _Malformed("'id' must be the id of a message, as SQS gives it")
    attributes = content["attributes"]
    first = attributes.get(contract.FIRST_SENT_AT, "")
    if not (first.isascii() and first.isdecimal() and len(first) <= len("9999999999999")):
        raise _Malformed(
            f"'{contract.FIRST_SENT_AT}' of its attributes must be milliseconds since 1970"
        )
    return DeadLetter(
        message_id=content["id"],
        first_message_id=first_message_id(
            attributes.get(contract.FIRST_MESSAGE_ID, ""), message_id=content["id"]
        ),
        body=content["body"],
        sent_at=int(first),
        first_sent_at=int(first),
        receives=0,
        reason=attributes.get("reason", ""),
        kind=attributes.get("kind", ""),
        group=content["group"],
        receipt="",
        senders=chain(*attributes.get(contract.FIRST_SENDERS, "").partition(" ")[::2]),
    )


def _check_sendable(letter: DeadLetter) -> None:
    """Raise `_Malformed` for what SQS would refuse."""
    if not GROUP.fullmatch(letter.group):
        raise _Malformed("'group' must be up to 128 letters, digits and punctuation marks of ASCII")
    if not BODY.fullmatch(letter.body):
        raise _Malformed(
            "'body' has a character that SQS refuses: a control character, half a surrogate pair, "
            "U+FFFE or U+FFFF"
        )
    if not 0 < letter.size <= MAX_MESSAGE_BYTES:
        raise _Malformed("'body' must have between 1 byte and 1 MiB")

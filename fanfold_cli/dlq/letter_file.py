"""The file that dropped letters are written to, and restored from: one JSON object a line."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from fanfold import contract, names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES, DeadLetter
from fanfold.messages import first_message_id
from fanfold.senders import chain
from fanfold_cli import kept_file
from fanfold_cli.console import ExpectedError, counted
from fanfold_cli.dlq.letters import MAX_LETTERS, QUEUES

FIELDS = ("queue", "id", "group", "attributes", "body")
# What SQS takes in a body, and as a group, by its API reference ("SendMessage").
BODY = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
GROUP = re.compile("[!-~]{0,128}")

Letters = list[tuple[names.Queue, DeadLetter]]


def write(path: Path, letters: Iterable[tuple[names.Queue, DeadLetter]], *, place: str) -> None:
    """Write the letters of a stack to a new file; raises `ExpectedError`, or it is on the disk."""
    with kept_file.writing(path, place=place) as write_line:
        for queue, letter in letters:
            write_line(_content(queue, letter))


def read(path: Path, *, place: str) -> Letters:
    """All letters of a file; raises `ExpectedError` with the number of a line that is malformed.

    Or of a line that is of another stack than this `place`.
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
    values = (queue.name.lower(), letter.message_id, letter.group, attributes, letter.body)
    return dict(zip(FIELDS, values, strict=True))


def _letter(line: bytes, *, place: str, where: str) -> tuple[names.Queue, DeadLetter]:
    def refuse(fault: str) -> ExpectedError:
        return ExpectedError(
            f"{where}: {fault}. Nothing was sent; repair the file or take the line out."
        )

    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        raise refuse("it is not JSON") from None
    fields = (kept_file.STACK, *FIELDS)
    if not isinstance(content, dict) or set(content) != set(fields):
        raise refuse(f"it must be an object with the fields {', '.join(fields)}")
    attributes = content["attributes"]
    texts = [content[name] for name in fields if name != "attributes"]
    if not isinstance(attributes, dict) or not all(
        isinstance(each, str) for each in (*texts, *attributes.values())
    ):
        raise refuse("'attributes' must be an object, and all values must be strings")
    kept_file.refuse_another_stack(content, place=place, where=where, undone="Nothing was sent")
    queue = QUEUES.get(content["queue"])
    if queue is None:
        raise refuse(f"'queue' must be one of {', '.join(QUEUES)}")
    if not re.fullmatch(contract.MESSAGE_ID_PATTERN, content["id"]):
        raise refuse("'id' must be the id of a message, as SQS gives it")
    first = attributes.get(contract.FIRST_SENT_AT, "")
    if not (first.isascii() and first.isdecimal() and len(first) <= len("9999999999999")):
        raise refuse(
            f"'{contract.FIRST_SENT_AT}' of its attributes must be milliseconds since 1970"
        )
    letter = DeadLetter(
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
    if not GROUP.fullmatch(letter.group):
        raise refuse("'group' must be up to 128 letters, digits and punctuation marks of ASCII")
    if not BODY.fullmatch(letter.body):
        raise refuse(
            "'body' has a character that SQS refuses: a control character, half a surrogate pair, "
            "U+FFFE or U+FFFF"
        )
    if not 0 < letter.size <= MAX_MESSAGE_BYTES:
        raise refuse("'body' must have between 1 byte and 1 MiB")
    return queue, letter

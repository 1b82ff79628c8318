"""Dead letters as a terminal shows them: the facts of many, and the whole body of one."""

from typing import Any

from fanfold import names, times
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli.console import print_result, printable
from fanfold_cli.dlq.letters import missed
from fanfold_cli.stack import Deployment

# The longest that a listing takes; if it is killed, the messages reappear after this time.
LIST_SECONDS = 30
BODY_CHARS = 80


def read(
    deployment: Deployment, queue: names.Queue, limit: int
) -> tuple[list[DeadLetter], int, int]:
    """The oldest of the messages read, `limit` at most; about how many there are, and were missed.

    Messages are hidden while the listing reads on, so that each is received once.
    """
    dead = DeadLetterQueue(deployment.client("sqs"), deployment.output(queue.dlq_url_output))
    count = dead.count()
    found: dict[str, DeadLetter] = {}
    try:
        if count.total:
            for page in dead.pages(found, hidden_seconds=LIST_SECONDS):
                found |= {message.message_id: message for message in page}
                if len(found) >= min(limit, count.total):
                    break
    finally:
        dead.release(found.values())
    messages = sorted(found.values(), key=lambda message: message.sent_at)
    there = max(count.total, len(messages))
    return messages[:limit], there, missed(dead, count, len(found), still_there=len(found))


def row(queue: str, message: DeadLetter, bodies: bool) -> dict[str, Any]:
    about = {
        "queue": queue,
        "message_id": message.message_id,
        "first_message_id": message.first_message_id,
        "first_sent_at": times.to_text(message.first_sent_at),
        "sent_at": times.to_text(message.sent_at),
        "kept_until": times.to_text(message.kept_until),
        "receives": message.receives,
        "size": message.size,
        "sha256": message.sha256,
        "kind": message.kind,
        "reason": message.reason,
    }
    return about | ({"body": message.body[:BODY_CHARS]} if bodies else {})


def draw(rows: list[dict[str, Any]]) -> None:
    """Print each message on lines of its own: ids and hashes stay whole, to be searched for."""
    for row in rows:
        print_result("".join(f"{name:>16}: {printable(value)}\n" for name, value in row.items()))


def visible(body: str) -> str:
    """The whole body; control characters and half surrogate pairs as their escapes."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in body
    )

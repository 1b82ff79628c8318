"""The letters of dead-letter queues: listed, or held by a command until it ends.

Only a receive returns a letter, and hides it from others for a time.
"""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names, times
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import Count, DeadLetter, DeadLetterQueue
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, print_result, printable

QUEUES = {queue.lane: queue for queue in names.QUEUES}
# Enough to read 10,000 letters and to think a question over. If the command is killed, its letters
# reappear after this time.
HIDDEN_SECONDS = 600
# A letter counts as held until this long before it reappears, so that a slow call ends in time.
MARGIN_SECONDS = 60
# SQS has no search. Finding a letter among more than these would take minutes, and holding them all
# too much memory.
MAX_LETTERS = 10_000
# A listing takes less; if it is killed, the letters reappear after this time.
LIST_SECONDS = 30
BODY_CHARS = 80


def dead_letters_of(deployment: Deployment, queue: names.Queue) -> DeadLetterQueue:
    return DeadLetterQueue(deployment.client("sqs"), deployment.output(queue.dlq_url_output))


def oldest_first(letters: Iterable[DeadLetter]) -> list[DeadLetter]:
    return sorted(letters, key=lambda letter: letter.sent_at)


def oldest(
    deployment: Deployment, queue: names.Queue, limit: int
) -> tuple[list[DeadLetter], int, int]:
    """The oldest `limit` letters of those read; about how many there are; about how many it missed.

    Letters are hidden while the listing reads, so that each is received once.
    """
    dead = dead_letters_of(deployment, queue)
    count = dead.count()
    found: dict[str, DeadLetter] = {}
    try:
        if count.total:
            for page in dead.pages(found, hidden_seconds=LIST_SECONDS):
                found |= {letter.message_id: letter for letter in page}
                if len(found) >= min(limit, count.total):
                    break
    finally:
        dead.release(found.values())
    letters = oldest_first(found.values())
    there = max(count.total, len(letters))
    return letters[:limit], there, missed(dead, count, len(found), still_there=len(found))


@dataclass
class Held:
    """The letters of one dead-letter queue that this command holds."""

    queue: names.Queue
    dead: DeadLetterQueue
    # After this, other readers may have them. A monotonic clock stands still while the machine
    # sleeps, and a wall clock may be set back, so both are checked.
    until: float
    until_ms: int
    letters: dict[str, DeadLetter] = field(default_factory=dict)  # by id
    count: Count = field(default_factory=lambda: Count(0, 0))  # when the search began
    found: int = 0  # by the search

    @property
    def name(self) -> str:
        return self.queue.lane

    def search(self, ids: Collection[str] | None) -> None:
        """Receive letters until all `ids` are found; with None, until there are no more.

        Other letters are visible again when it returns.
        """
        self.count = self.dead.count()
        count = self.count.total
        if count > MAX_LETTERS:
            raise ExpectedError(
                f"The dead-letter queue of {self.name} holds about {counted(count, 'letter')}, too "
                f"many to search: this command takes up to {MAX_LETTERS:,}. Remove the cause and "
                f"run `fanfold dlq redrive --queue {self.name}`, which moves the whole queue. If "
                "all of it is junk, purge it in the SQS console, which keeps no copy."
            )
        if not count:
            return
        with progress_bar(f"Reading {self.name}", total=count, unit="letters") as bar:
            for page in self.dead.pages(self.letters, hidden_seconds=HIDDEN_SECONDS):
                self.letters |= {letter.message_id: letter for letter in page}
                self.found = len(self.letters)
                bar.reach(len(self.letters))
                self.check_time()
                is_found = ids is not None and self.letters.keys() >= set(ids)
                if is_found or len(self.letters) >= MAX_LETTERS:
                    break
        if ids is not None:
            self.release(letter for letter in self.oldest_first() if letter.message_id not in ids)

    def missed(self) -> int:
        return missed(self.dead, self.count, self.found, still_there=len(self.letters))

    def oldest_first(self) -> list[DeadLetter]:
        return oldest_first(self.letters.values())

    def check_time(self) -> None:
        """Raise `ExpectedError` if others may have received the letters meanwhile."""
        if clock.monotonic() >= self.until or clock.now_ms() >= self.until_ms:
            raise ExpectedError(
                f"The letters of {self.name} were held for {HIDDEN_SECONDS // 60} minutes and are "
                "visible to others again, so nothing more was done. Run the command again, and "
                "name fewer of them if that was not enough time."
            )

    def delete(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Delete letters in pages; yield each that SQS confirms.

        Raises `ExpectedError` when the time is over: SQS would also confirm the deletion of a
        letter that somebody else has received meanwhile, without deleting it.
        """
        every = list(letters)
        for start in range(0, len(every), dead_letters.PAGE):
            self.check_time()
            page = every[start : start + dead_letters.PAGE]
            for letter in self.dead.delete_page(page):
                del self.letters[letter.message_id]
                yield letter

    def release(self, letters: Iterable[DeadLetter]) -> None:
        """Make letters visible to others again; if the call fails, they reappear later."""
        let_go = list(letters)
        with suppress(ClientError, BotoCoreError):
            self.dead.release(let_go)
        for letter in let_go:
            del self.letters[letter.message_id]


@contextmanager
def holding(
    deployment: Deployment, queues: Iterable[names.Queue], ids: Collection[str] | None
) -> Iterator[list[Held]]:
    """Hold the letters with these ids, or all with None, until the block ends.

    Those that the block has not deleted are then visible to others again.
    """
    held: list[Held] = []
    missing = None if ids is None else set(ids)
    try:
        for queue in queues:
            if missing == set():
                break
            dead = dead_letters_of(deployment, queue)
            seconds = HIDDEN_SECONDS - MARGIN_SECONDS
            until, until_ms = clock.monotonic() + seconds, clock.now_ms() + seconds * 1000
            held.append(Held(queue, dead, until, until_ms))
            held[-1].search(missing)
            if missing is not None:
                missing -= held[-1].letters.keys()
        yield held
    finally:
        for each in held:
            each.release(each.oldest_first())


def missed(dead: DeadLetterQueue, before: Count, found: int, *, still_there: int) -> int:
    """About how many letters of the first count others hold or have held.

    SQS is asked again only if some were not found, because its counts lag.
    """
    if found >= before.total:
        return 0
    try:
        after = dead.count()
    except (ClientError, BotoCoreError):
        after = before  # too many is better than none
    return before.missed(found, after=after, still_there=still_there)


def held_elsewhere(queue: str, count: int) -> str:
    """A sentence about letters that somebody else holds.

    SQS does not say since when they are hidden: at most for `HIDDEN_SECONDS`.
    """
    them, they_are = ("it", "it is") if count == 1 else ("them", "they are")
    return (
        f"SQS still counts about {counted(count, 'letter')} of {queue} that this command did not "
        f"get. Most likely another command took {them} first, or one that was killed: {they_are} "
        f"visible within ten minutes at the latest, unless it takes {them} again. Run this command "
        "again then."
    )


def not_found(ids: Collection[str] | None, held: Iterable[Held]) -> list[str]:
    """The ids that no queue had, in the order in which they were given."""
    found = {message_id for each in held for message_id in each.letters}
    return [given for given in dict.fromkeys(ids or ()) if given not in found]


def row(queue: str, letter: DeadLetter, bodies: bool) -> dict[str, Any]:
    about = {
        "queue": queue,
        "message_id": letter.message_id,
        "first_message_id": letter.first_message_id,
        "first_sent_at": times.to_text(letter.first_sent_at),
        "sent_at": times.to_text(letter.sent_at),
        "kept_until": times.to_text(letter.kept_until),
        "receives": letter.receives,
        "size": letter.size,
        "sha256": letter.sha256,
        "kind": letter.kind,
        "reason": letter.reason,
    }
    return about | ({"body": letter.body[:BODY_CHARS]} if bodies else {})


def draw(rows: list[dict[str, Any]]) -> None:
    """Print each letter as lines, so that ids and hashes stay whole and can be searched for."""
    for row in rows:
        print_result("".join(f"{name:>16}: {printable(value)}\n" for name, value in row.items()))


def visible(body: str) -> str:
    """The whole body, with control characters and half surrogate pairs escaped."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in body
    )

"""Move dead letters back to the queue that they came from.

SQS can move them itself, but only a whole queue, and it loses the time when they were first sent.
So this receives letters, sends them with that time, and then deletes them. SQS moves only large
queues whose messages do not depend on that time.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, contract, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import CONTRACT, DeadLetter, DeadLetterQueue
from fanfold.errors import Unsent
from fanfold_cli.dlq import move_tasks
from fanfold_cli.dlq.letters import (
    HIDDEN_SECONDS,
    Held,
    dead_letters_of,
    holding,
    missed,
    not_found,
)
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, counted, say

# Moving this many, ten a call, takes some seconds. SQS moves 500 a second, but also those that
# break the contract, which then come back.
MAX_LOOPED = 1_000

NOT_MOVED = "Messages that were not moved are still in the dead-letter queue."
EXPIRED = "expired"
TOO_OLD = "too old"
# Why letters stay: singular and plural.
STAYS = {
    CONTRACT: ("letter that breaks the contract", "letters that break the contract"),
    EXPIRED: ("expired post", "expired posts"),
    TOO_OLD: (
        "event that is older than 28 days and would count as new",
        "events that are older than 28 days and would count as new",
    ),
}


@dataclass(frozen=True)
class Redrive:
    """Moves letters back. `begun` lists what it has begun, for a report even after Ctrl-C."""

    deployment: Deployment
    begun: "list[Moving]"
    rate: int | None  # messages a second, at most
    retention_days: int

    def move_all(self, queue: names.Queue) -> None:
        """Move the messages in the dead-letter queue; those that arrive meanwhile stay."""
        with self._moving(queue) as moving:
            count = moving.dead.count()
            if not count.total:
                return
            move_tasks.refuse_while_running(self.deployment, queue)
            with progress_bar(f"Moving {moving.name}", total=count.total, unit="messages") as bar:
                is_left_to_sqs = queue != names.PUBLISH and count.total > MAX_LOOPED
                if not (is_left_to_sqs and self._move_by_sqs(queue, moving, bar)):
                    moving.take_all(count.total, bar)
            stayed = len(moving.stayed)
            moving.held = missed(moving.dead, count, moving.moved + stayed, still_there=stayed)

    def move_named(self, queues: Iterable[names.Queue], ids: Collection[str]) -> list[str]:
        """Move the letters with these ids; return the ids that no queue had."""
        with holding(self.deployment, queues, ids) as found:
            missing = not_found(ids, found)
            for held in found:
                if held.letters:
                    self._move_held(held)
        return missing

    def _move_held(self, held: Held) -> None:
        with self._moving(held.queue) as moving:
            move_tasks.refuse_while_running(self.deployment, held.queue)
            letters = held.oldest_first()
            for start in range(0, len(letters), dead_letters.PAGE):
                held.check_time()
                for letter in moving.take(letters[start : start + dead_letters.PAGE]):
                    del held.letters[letter.message_id]

    def _move_by_sqs(self, queue: names.Queue, moving: "Moving", bar: Bar) -> bool:
        """Let SQS move all; False if it does not know move tasks."""

        def reach(moved: int, total: int | None) -> None:
            moving.moved, moving.how = moved, "task"
            bar.reach(moved, total=total)

        return move_tasks.move(self.deployment, queue, rate=self.rate, reach=reach)

    @contextmanager
    def _moving(self, queue: names.Queue) -> "Iterator[Moving]":
        """Record an error instead of raising it, so that other queues go on."""
        sqs, name = self.deployment.client("sqs"), queue.lane
        destination = self.deployment.output(queue.url_output)
        dead = dead_letters_of(self.deployment, queue)
        moving = Moving(name, sqs, destination, dead, self.retention_days, self.rate)
        self.begun.append(moving)
        try:
            yield moving
        except ExpectedError as error:
            moving.error = str(error)
        except (ClientError, BotoCoreError, Unsent) as error:
            moving.error = (
                f"The redrive of {name} stopped; run it again. {NOT_MOVED} The error: {error}"
            )


@dataclass
class Moving:
    """Moves letters of one queue, ten a call at most, and counts them.

    An interruption can leave a letter in both queues; every worker tolerates duplicates.
    """

    name: str
    sqs: Any
    destination: str  # the URL of the queue
    dead: DeadLetterQueue
    retention_days: int
    rate: int | None
    began: float = field(default_factory=lambda: time.monotonic())
    moved: int = 0
    stayed: dict[str, tuple[str, DeadLetter]] = field(
        default_factory=dict
    )  # by id, with the reason
    how: str = "loop"  # or "task": moved by SQS itself
    held: int = 0  # about how many another command holds
    error: str = ""  # a sentence, or empty

    @property
    def stays(self) -> Counter[str]:
        """How many stayed, by reason."""
        return Counter(why for why, _ in self.stayed.values())

    def content(self) -> dict[str, Any]:
        return {
            "queue": self.name,
            "moved": self.moved,
            "stayed": self.stays,
            "how": self.how,
            "held": self.held,
            "error": self.error,
        }

    def take(self, page: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Move up to ten letters, except those that must stay; return the moved ones.

        Raises `Unsent` if SQS refuses some; the others are moved then.
        """
        going = []
        for letter in page:
            if why := why_it_stays(letter, retention_days=self.retention_days):
                if why == EXPIRED and letter.message_id not in self.stayed:
                    say(f"Message {letter.message_id} publishes an expired post, so it stays.")
                self.stayed[letter.message_id] = why, letter
            else:
                going.append(letter)
        at_once = dead_letters.PAGE if self.rate is None else min(dead_letters.PAGE, self.rate)
        for start in range(0, len(going), at_once):
            some = going[start : start + at_once]
            if self.rate is not None:
                time.sleep(max(0.0, self.began + self.moved / self.rate - time.monotonic()))
            sent = send_back(self.sqs, self.destination, some)
            self._delete(sent)
            if len(sent) < len(some):
                raise Unsent(f"SQS refused {counted(len(some) - len(sent), 'message')}.")
        return going

    def _delete(self, sent: Sequence[DeadLetter]) -> None:
        if not sent:
            return
        self.moved += len(sent)
        deleted = self.dead.delete_page(sent)
        if len(deleted) < len(sent):
            say(
                f"SQS did not delete {counted(len(sent) - len(deleted), 'letter')} that "
                "went back: the next redrive moves them again, which does no harm."
            )

    def take_all(self, count: int, bar: Bar) -> None:
        """Move at most `count` messages: those that fail again must not be moved forever."""
        page: list[DeadLetter] = []
        try:
            for page in self.dead.pages(self.stayed, hidden_seconds=HIDDEN_SECONDS):
                room = count - self.moved - len(self.stayed)
                self.take(page[:room])
                page = page[room:]
                bar.reach(self.moved + len(self.stayed))
                if self.moved + len(self.stayed) >= count:
                    break
        finally:
            self.dead.release([*page, *(letter for _, letter in self.stayed.values())])


def why_it_stays(letter: DeadLetter, *, retention_days: int) -> str:
    """Why sending a letter back would have no effect; empty if it would."""
    now = clock.now_ms()
    if letter.kind == CONTRACT:
        return CONTRACT
    if letter.is_expired(now=now, retention_days=retention_days):
        return EXPIRED
    return TOO_OLD if letter.is_too_old(now=now) else ""


def send_back(sqs: Any, url: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Send letters to their queue, at most ten a call; return those that SQS accepted.

    Each keeps the time of its first send, and its first id.
    """
    taken = []
    for batch in _batches(letters):
        entries = [{"Id": str(number), **message} for number, (_, message) in enumerate(batch)]
        answer = sqs.send_message_batch(QueueUrl=url, Entries=entries)
        # SQS answers 200 even if entries have failed.
        taken += [batch[int(entry["Id"])][0] for entry in answer.get("Successful", [])]
    return taken


def _batches(letters: Sequence[DeadLetter]) -> Iterator[list[tuple[DeadLetter, Any]]]:
    """Letters with their messages, as many as one call takes: ten, and a megabyte together."""
    batch: list[tuple[DeadLetter, Any]] = []
    size = 0
    for letter in letters:
        message = _message(letter)
        own = dead_letters.size_of(message)
        if batch and (
            len(batch) == dead_letters.PAGE or size + own > dead_letters.MAX_MESSAGE_BYTES
        ):
            yield batch
            batch, size = [], 0
        batch.append((letter, message))
        size += own
    if batch:
        yield batch


def _message(letter: DeadLetter) -> Any:
    first = {
        contract.FIRST_SENT_AT: str(letter.first_sent_at),
        contract.FIRST_MESSAGE_ID: letter.first_message_id,
        # The original senders, so that a redrive grants nobody another sender's rights.
        contract.FIRST_SENDERS: letter.senders,
    }
    return dead_letters.fitting(letter.body, first, group=letter.group)


def say_what_stayed(stayed: Counter[str], where: str) -> None:
    for why, count in stayed.items():
        say(f"Left {counted(count, *STAYS[why])} in {where}.")

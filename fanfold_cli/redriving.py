"""Move dead letters back to the queue that they came from.

SQS does so itself, but only for all messages of a queue at once, and it forgets when they were
sent. So this module receives each letter, sends it with its first time, and only then deletes it.
Only large queues of orders, whose time does not matter, are left to SQS.
"""

import time
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fanfold import clock, contract, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import CONTRACT, DeadLetter, DeadLetterQueue
from fanfold_cli import letter_file, move_tasks
from fanfold_cli.console import counted, failing_with, say
from fanfold_cli.holding import HIDDEN_SECONDS, holding, not_found
from fanfold_cli.progress import Bar, progress_bar
from fanfold_cli.stack import Deployment

# A minute or so of moving letters one by one. SQS moves 500 a second, but those that break the
# contract as well, which then come back.
MAX_LOOPED = 1_000

EXPIRED = "expired"
TOO_OLD = "too old"
# Why a letter stays, for one of them and for more.
STAYS = {
    CONTRACT: ("letter that breaks the contract", "letters that break the contract"),
    EXPIRED: ("expired post", "expired posts"),
    TOO_OLD: (
        "event that is older than 28 days and would count as new",
        "events that are older than 28 days and would count as new",
    ),
}


@dataclass(frozen=True)
class Redriven:
    queue: str
    moved: int = 0
    stayed: dict[str, int] = field(default_factory=dict)  # how many, by why
    how: str = "loop"  # or "task": moved by SQS itself


def redrive(
    deployment: Deployment, queue: names.Queue, *, rate: int | None, retention_days: int
) -> Redriven:
    """Move the messages that are in the dead-letter queue now; later ones stay."""
    name = queue.name.lower()
    sqs = deployment.client("sqs")
    dead = DeadLetterQueue(sqs, deployment.output(queue.dlq_url_output))
    count = dead.count()
    if count == 0:
        return Redriven(name)
    move_tasks.refuse_while_running(deployment, queue)
    with progress_bar(f"Moving {name}", total=count, unit="messages") as bar:
        if queue != names.PUBLISH and count > MAX_LOOPED:
            moved = move_tasks.move(deployment, queue, rate=rate, bar=bar)
            if moved is not None:
                return Redriven(name, moved, how="task")
        destination = deployment.output(queue.url_output)
        moving = Moving(sqs, destination, dead, retention_days, rate, time.monotonic())
        moving.take_all(count, bar)
    return moving.done(name)


def redrive_these(
    deployment: Deployment,
    queues: Iterable[names.Queue],
    ids: Collection[str],
    *,
    rate: int | None,
    retention_days: int,
) -> tuple[list[Redriven], list[str]]:
    """Move the letters with these ids; return what was done, and the ids that no queue had."""
    done = []
    with holding(deployment, queues, ids) as found:
        missing = not_found(ids, found)
        for held in found:
            if not held.letters:
                continue
            move_tasks.refuse_while_running(deployment, held.queue)
            destination = deployment.output(held.queue.url_output)
            moving = Moving(
                deployment.client("sqs"),
                destination,
                held.dead,
                retention_days,
                rate,
                time.monotonic(),
            )
            for letter in held.oldest_first():
                held.check_time()
                if moving.take(letter):
                    del held.letters[letter.message_id]
            done.append(moving.done(held.name))
    return done, missing


def why_it_stays(letter: DeadLetter, *, retention_days: int) -> str:
    """Why a letter cannot be sent back to any effect; empty if it can."""
    now = clock.now_ms()
    if letter.kind == CONTRACT:
        return CONTRACT
    if letter.is_expired(now=now, retention_days=retention_days):
        return EXPIRED
    return TOO_OLD if letter.is_too_old(now=now) else ""


def send_back(sqs: Any, url: str, letter: DeadLetter) -> None:
    """Send a letter to its queue; it still counts as sent at its first time, and keeps its id."""
    first = {
        contract.FIRST_SENT_AT: str(letter.first_sent_at),
        contract.FIRST_MESSAGE_ID: letter.first_message_id,
        # Whoever moves letters back lends nobody a right by that.
        contract.FIRST_SENDERS: letter.senders,
    }
    dead_letters.send(sqs, url, letter.body, first, group=letter.group)


def restore(
    deployment: Deployment, letters: letter_file.Letters, *, retention_days: int
) -> tuple[int, Counter[str]]:
    """Send the letters of a file back; return how many, and how many stayed, by why.

    What breaks the contract is sent too: that is how an operator tries it again after all.
    """
    sqs, sent, stayed = deployment.client("sqs"), 0, Counter[str]()
    with progress_bar("Restoring", total=len(letters), unit="letters") as bar:
        for number, (queue, letter) in enumerate(letters, 1):
            why = why_it_stays(replace(letter, kind=""), retention_days=retention_days)
            if why:
                stayed[why] += 1
                continue
            with failing_with(
                f"Line {number} was not sent back, and {len(letters) - number} after it. Run the "
                "command again: a letter that is sent twice does no harm. The error"
            ):
                send_back(sqs, deployment.output(queue.url_output), letter)
            sent += 1
            bar.reach(number)
    return sent, stayed


def say_what_stayed(stayed: Counter[str], where: str) -> None:
    for why, count in stayed.items():
        say(f"Left {counted(count, *STAYS[why])} in {where}.")


@dataclass
class Moving:
    """Moves letters of one queue, one by one.

    An interruption can leave a letter in both queues; every worker tolerates duplicates.
    """

    sqs: Any
    destination: str
    dead: DeadLetterQueue
    retention_days: int
    rate: int | None
    began: float  # of the monotonic clock
    moved: int = 0
    stayed: dict[str, tuple[str, DeadLetter]] = field(default_factory=dict)  # by id, with why

    def take(self, letter: DeadLetter) -> bool:
        """Move a letter; False if it stays."""
        why = why_it_stays(letter, retention_days=self.retention_days)
        if why:
            if why == EXPIRED and letter.message_id not in self.stayed:
                say(f"Message {letter.message_id} publishes an expired post, so it stays.")
            self.stayed[letter.message_id] = why, letter
            return False
        if self.rate is not None:
            time.sleep(max(0.0, self.began + self.moved / self.rate - time.monotonic()))
        send_back(self.sqs, self.destination, letter)
        self.dead.delete(letter)
        self.moved += 1
        return True

    def take_all(self, count: int, bar: Bar) -> None:
        """Move `count` messages at most: those that keep failing must not go round in circles."""
        page: list[DeadLetter] = []
        try:
            while self.moved + len(self.stayed) < count:
                page = self.dead.receive(
                    hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS
                )
                if not page:
                    break
                while page and self.moved + len(self.stayed) < count:
                    self.take(page[0])
                    page.pop(0)
                    bar.reach(self.moved + len(self.stayed))
        finally:
            self.dead.release([*page, *(letter for _, letter in self.stayed.values())])

    def done(self, queue: str) -> Redriven:
        return Redriven(queue, self.moved, dict(Counter(why for why, _ in self.stayed.values())))

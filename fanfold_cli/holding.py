"""Letters that a command holds: received, and thereby hidden from other readers until it ends."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names
from fanfold.aws import dead_letters
from fanfold.aws.dead_letters import DeadLetter, DeadLetterQueue
from fanfold_cli.console import ExpectedError, counted
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

QUEUES = {queue.name.lower(): queue for queue in names.QUEUES}
# Enough to read 10,000 letters and to think a question over. If the command is killed, its letters
# reappear after this time.
HIDDEN_SECONDS = 600
# A letter counts as held until this long before it reappears: a slow call must end in time.
MARGIN_SECONDS = 60
# SQS has no search. To find a letter among more than these would take minutes, and to hold them all
# would take more memory than a command should.
MAX_LETTERS = 10_000


@dataclass
class Held:
    """The letters of one dead-letter queue that this command holds."""

    queue: names.Queue
    dead: DeadLetterQueue
    until: float  # of the monotonic clock: later, other readers may have them
    letters: dict[str, DeadLetter] = field(default_factory=dict)  # by id

    @property
    def name(self) -> str:
        return self.queue.name.lower()

    def search(self, ids: Collection[str] | None) -> None:
        """Receive letters until all of `ids` are found, or (with None) until there are no more.

        The others are visible again when it returns.
        """
        count = self.dead.count()
        if count > MAX_LETTERS:
            raise ExpectedError(
                f"The dead-letter queue of {self.name} holds about {counted(count, 'letter')}, too "
                f"many to search: this command takes up to {MAX_LETTERS:,}. Remove the cause and "
                f"run `fanfold dlq redrive --queue {self.name}`, which moves the whole queue. If "
                "all of it is junk, purge it in the console of SQS, which keeps no copy."
            )
        if not count:
            return
        with progress_bar(f"Reading {self.name}", total=count, unit="letters") as bar:
            while ids is None or not self.letters.keys() >= set(ids):
                page = self.dead.receive(
                    hidden_seconds=HIDDEN_SECONDS, wait_seconds=dead_letters.WAIT_SECONDS
                )
                self.letters |= {letter.message_id: letter for letter in page}
                bar.reach(len(self.letters))
                self.check_time()
                if not page or len(self.letters) >= MAX_LETTERS:
                    break
        if ids is not None:
            self.release(letter for letter in self.oldest_first() if letter.message_id not in ids)

    def oldest_first(self) -> list[DeadLetter]:
        return sorted(self.letters.values(), key=lambda letter: letter.sent_at)

    def check_time(self) -> None:
        """Raise `ExpectedError` if others may have received the letters meanwhile."""
        if clock.monotonic() >= self.until:
            raise ExpectedError(
                f"The letters of {self.name} were held for {HIDDEN_SECONDS // 60} minutes and are "
                "visible to others again, so nothing more was done. Run the command again, and "
                "name fewer of them if that was not enough time."
            )

    def delete(self, letters: Iterable[DeadLetter]) -> Iterator[DeadLetter]:
        """Delete letters in pages; yield each that is deleted.

        One that SQS refuses to delete is not yielded. Raises `ExpectedError` once the time is over:
        SQS would answer as if it had deleted a letter that somebody else has received meanwhile.
        """
        every = list(letters)
        for start in range(0, len(every), dead_letters.PAGE):
            self.check_time()
            page = every[start : start + dead_letters.PAGE]
            refused = self.dead.delete_page(page)
            for letter in page:
                if letter not in refused:
                    del self.letters[letter.message_id]
                    yield letter

    def release(self, letters: Iterable[DeadLetter]) -> None:
        """Make letters visible to other readers again; without an answer they reappear later."""
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

    What it has not deleted by then is visible to other readers again.
    """
    held: list[Held] = []
    missing = None if ids is None else set(ids)
    try:
        for queue in queues:
            if missing == set():
                break
            dead = DeadLetterQueue(
                deployment.client("sqs"), deployment.output(queue.dlq_url_output)
            )
            until = clock.monotonic() + HIDDEN_SECONDS - MARGIN_SECONDS
            held.append(Held(queue, dead, until))
            held[-1].search(missing)
            if missing is not None:
                missing -= held[-1].letters.keys()
        yield held
    finally:
        for each in held:
            each.release(each.oldest_first())


def not_found(ids: Collection[str] | None, held: Iterable[Held]) -> list[str]:
    """The ids that no queue had, in the order in which they were given."""
    found = {message_id for each in held for message_id in each.letters}
    return [given for given in dict.fromkeys(ids or ()) if given not in found]

"""The two lanes of DELIVER, and which one a fan-out's segments are sent to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanfold.aws.queues import WorkQueue
from fanfold.messages import DeliverSegment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Executor

    from mypy_boto3_sqs import SQSClient

    from fanfold.fanout.row import Fanout
    from fanfold.messages import Message
    from fanfold.settings import Settings


@dataclass(frozen=True)
class Lanes:
    """Where segments are sent: a fan-out of one segment never waits behind one of many.

    A publisher over the rate is the exception: all its fan-outs wait with the large ones.
    """

    express: WorkQueue
    bulk: WorkQueue

    @classmethod
    def of(cls, settings: Settings, sqs: SQSClient) -> Lanes:
        return cls(
            express=WorkQueue(sqs, settings.express_queue_url),
            bulk=WorkQueue(sqs, settings.bulk_queue_url),
        )

    def of_fanout(self, fanout: Fanout) -> WorkQueue:
        return self.bulk if fanout.is_bulk else self.express

    def send_pending(self, fanout: Fanout, threads: Executor | None = None) -> None:
        """Send every pending segment, each from its stored position; may send a segment twice.

        The largest fan-out takes 52 batches; `threads` send them in parallel.
        """
        self.of_fanout(fanout).send(*commands(fanout), threads=threads)


def commands(fanout: Fanout) -> Iterator[Message]:
    """The command for each pending segment, in ring order, from its stored position."""
    for segment in sorted(fanout.pending):
        command = DeliverSegment(
            fanout_id=fanout.fanout_id,
            segment=segment,
            segments=fanout.segments,
            position=fanout.resume[segment].position if segment in fanout.resume else "",
        )
        yield command.message(group=fanout.publisher_id)

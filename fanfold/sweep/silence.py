"""What SWEEP does about one open or stalled fan-out: a pure decision over its row of the ledger.

SWEEP asks; it does not measure. No figure of a queue tells what is waiting there and what is lost.
So when a fan-out has been silent for long, SWEEP sends one batch of its pending segments again: a
question. When that batch comes out of the lane, everything sent before has come out too, because
messages of one group roughly keep their order. What is still silent then is lost, and SWEEP sends
all that is pending: a round.
"""

from enum import Enum

from fanfold.fanout.row import QUEUED, STALLED, Fanout
from fanfold.names import BULK, DELIVER

# PLAN takes a command within seconds unless its queue is long, so two minutes are ample.
PLAN_SILENCE_SECONDS = 120
# A worker that took a command with or before the question has ended by now, and half a minute is
# for its last calls and the skew of clocks. What it handed back may wait longer, and is then sent
# twice: otherwise, real losses would wait as long.
ANSWERED_SILENCE_SECONDS = DELIVER.seconds + 30
# If a worker died with a command, the redelivery would have shown by now. The express lane has the
# same consumer, and so the same visibility timeout.
SILENCE_SECONDS = BULK.visibility_seconds + 60
# The wait between two questions doubles up to this, which bounds what a long backlog costs.
LONGEST_WAIT_SECONDS = 24 * 60 * 60
# After this many rounds the fan-out stalls: a person should look. A fan-out that only waits is not
# given up, because a round needs an answer first.
MAX_ROUNDS = 10
# This many questions without progress take about nine days, and queues keep messages for 14.
MAX_ASKS = 16
# One batch of SQS: enough that a few lost ones do not silence it.
QUESTION_SEGMENTS = 10


class Remedy(Enum):
    """The name is for the log."""

    NOTHING = "nothing"
    COMPLETE = "completed"
    EXPIRE = "expired"
    ASK_PLAN = "asked PLAN"
    ASK = "asked its lane"
    ROUND = "sent again"
    STALL = "stalled"


def remedy_for(row: Fanout, *, now_ms: int, paused_ms: int) -> Remedy:
    """What is due at `now_ms`; `paused_ms` is when the fan-out's queue was last seen paused.

    `paused_ms` is `now_ms` while the queue is paused, and 0 if it never was. A stalled fan-out is
    asked nothing, but it ends as others do.
    """
    if not (row.is_open or row.state == STALLED):  # the index lags behind
        return Remedy.NOTHING
    if row.segments and not row.pending:  # its last worker crashed before it completed the fan-out
        return Remedy.COMPLETE
    if row.has_expired(now_ms):
        return Remedy.EXPIRE
    if row.state == STALLED:
        return Remedy.NOTHING
    quiet = (now_ms - max(row.changed_ms, paused_ms)) / 1000
    if row.state == QUEUED:
        return _question(Remedy.ASK_PLAN, row, quiet, now_ms, PLAN_SILENCE_SECONDS)
    if row.came_out >= row.asked_at > row.sent_at and quiet >= ANSWERED_SILENCE_SECONDS:
        return Remedy.ROUND if row.rounds < MAX_ROUNDS else Remedy.STALL
    return _question(Remedy.ASK, row, quiet, now_ms, SILENCE_SECONDS)


def _question(ask: Remedy, row: Fanout, quiet: float, now_ms: int, silence_seconds: int) -> Remedy:
    """Ask if it is silent, and the last question is older than a wait that doubles each time."""
    doublings = max(0, max(row.asks, row.rounds) - 1)
    wait = min(LONGEST_WAIT_SECONDS, silence_seconds * 2**doublings)
    if quiet < silence_seconds or (now_ms - row.asked_at) / 1000 < wait:
        return Remedy.NOTHING
    return ask if row.asks < MAX_ASKS else Remedy.STALL


def commands_for(remedy: Remedy, row: Fanout) -> int:
    """How many messages the remedy sends."""
    match remedy:
        case Remedy.ASK_PLAN:
            return 1
        case Remedy.ASK:
            return min(QUESTION_SEGMENTS, len(row.pending))
        case Remedy.ROUND:
            return len(row.pending)
        case _:
            return 0

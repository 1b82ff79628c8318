"""Which of the open fan-outs one run of SWEEP looks at, and how much it sends: pure decisions."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from fanfold.fanout.row import Fanout
from fanfold.sweep.silence import Remedy, commands_for

# Rows read in one run: 10,000 read units, and about 3 s of one vCPU in boto3.
MAX_ROWS = 10_000
# Stalled rows read in one run. A sound stage has none; any more wait for these.
MAX_STALLED = 1_000
# Messages of one run, so that it ends within its minute and the workers keep up: each is an update
# and a tenth of a call to SQS. So 10,000 lost commands of either kind are sent again within ten
# minutes, seven of which are the silence of a lane.
MAX_PLAN_COMMANDS = 5_000
MAX_SEGMENT_COMMANDS = 4_000


class Key(NamedTuple):
    """An open fan-out as its index shows it."""

    fanout_id: str
    accepted_at: str
    is_large: bool = False  # surely in the bulk lane


Due: TypeAlias = tuple[Remedy, Fanout]


def next_ids(keys: Iterable[Key], *, after: str, accepted_before: str) -> list[str]:
    """The ids to examine, in order, going on after the last one of the run before.

    In these turns, no fan-out stays behind others for ever, however many are waiting. A key that
    moves while the index is read may be seen at both places: its id comes once.
    """
    old = sorted({key.fanout_id for key in keys if key.accepted_at < accepted_before})
    ahead = [fanout_id for fanout_id in old if fanout_id > after]
    return (ahead + old[: len(old) - len(ahead)])[:MAX_ROWS]


def within_caps(due: Sequence[Due]) -> list[Due]:
    """What one run does: everything that needs no message, and the rest as far as the caps allow.

    The fan-outs with the fewest pending segments go first. The last one may exceed the cap;
    otherwise the largest would never have its turn.
    """
    ends = [each for each in due if each[0] is not Remedy.NOTHING and not commands_for(*each)]
    plans = [each for each in due if each[0] is Remedy.ASK_PLAN]
    lanes = [each for each in due if each[0] in (Remedy.ASK, Remedy.ROUND)]
    taken, sent = [], 0
    for each in sorted(lanes, key=lambda each: len(each[1].pending)):
        if sent >= MAX_SEGMENT_COMMANDS:
            break
        taken.append(each)
        sent += commands_for(*each)
    return [*ends, *plans[:MAX_PLAN_COMMANDS], *taken]

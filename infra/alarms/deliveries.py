"""Alarms about what was accepted: it fails, is late, stands still, or is about to be lost."""

from collections.abc import Iterator, Mapping
from typing import Final

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from fanfold import names
from fanfold.channels.head import MOST
from fanfold.sweep.oldest import SMALL_LATE_SECONDS

from ..queues import WorkQueue
from ..settings.stages import Stage
from ..tables import HouseTable
from .rules import BELOW, BROKEN, MINUTE, UNCHANGED, Rule, math, ours

# The oldest message of a queue may be this old. Commands and small fan-outs take seconds, but a
# burst of follows waits for the rate of RELATE. Bulk has no such limit: a large event makes it late
# by hours, by design, and an alarm that rings all the while would hide a fault.
MAX_AGE: Final[Mapping[names.Queue, Duration]] = {
    names.PUBLISH: Duration.minutes(5),
    names.EXPRESS: Duration.minutes(5),
    names.RELATION: Duration.minutes(30),
}
# SQS deletes a message 14 days after it was first sent. Four days are left to save it.
EXPIRING: Final = Duration.days(10)
# The 14 days of a dead letter count from when it was sent to its first queue. One that waited
# there for longer than this rings at once.
DEAD_LETTER_EXPIRING: Final = Duration.days(7)
# SWEEP reads ten letters of a queue a minute. Of a hundred, it has seen each within the hour almost
# surely, and the alarm stays on in the minutes between.
SEEN_MINUTES: Final = 60
# The maximum of five minutes does not see that a listing hides dead letters for some seconds.
GROWTH_PERIOD: Final = Duration.minutes(5)

# A lane with messages writes entries every second, unless it is paused or every write fails.
STILL_MINUTES: Final = 15
SMALL_FANOUT: Final = Duration.seconds(SMALL_LATE_SECONDS)
# SWEEP reports once a minute, but now and then twice in one and not in the next.
REPORTS: Final = 3
# One period of five minutes would ring later than five of one: CloudWatch prefers older data to
# missing data, and looks some periods further back.
SILENT_MINUTES: Final = 5


def of_queue(queue: WorkQueue) -> Iterator[Rule]:
    name, lower = queue.name.name, queue.name.name.lower()
    yield Rule(
        name=f"{name}Failed",
        says=f"Messages are in the dead-letter queue of {lower}: they break the contract, or have "
        "failed too often. `fanfold dlq list` says why. Remove the cause, then redrive them.",
        metric=_dead_letters(queue, MINUTE),
        threshold=1,
    )
    yield Rule(
        name=f"{name}FailedMore",
        says=f"More messages have joined those in the dead-letter queue of {lower}. This may be "
        "another fault than the first one: `fanfold dlq list` says why they failed.",
        # For the first letters, the alarm above rings.
        metric=math(
            "IF((DIFF(letters) > 0) AND (letters > DIFF(letters)), 1, 0)", period=GROWTH_PERIOD
        )(letters=_dead_letters(queue, GROWTH_PERIOD)),
        threshold=1,
    )
    may_be_paused = queue.name in names.PAUSABLE
    if queue.name in MAX_AGE:
        age = MAX_AGE[queue.name]
        paused = (
            "the queue is paused (`fanfold pause --show` says by whom and why: ask them before you "
            "resume), "
        )
        yield Rule(
            name=f"{name}Late",
            says=f"The oldest message of the {lower} queue has waited for "
            f"{age.to_minutes():g} minutes: {paused if may_be_paused else ''}its workers fail, or "
            "more comes in than they may take. See 'Late work' in docs/operations.md.",
            metric=_age(queue),
            threshold=age.to_seconds(),
            bad=3,
            of=3,
        )
    look = "Find out why its workers fail."
    if may_be_paused:
        look = (
            "`fanfold pause --show` says whether it is paused, by whom and why: end the pause with "
            "them; otherwise find out why its workers fail."
        )
    yield Rule(
        name=f"{name}Expiring",
        says=f"A message has waited in the {lower} queue for {EXPIRING.to_days():g} days, and SQS "
        f"deletes it after 14. {look}",
        metric=_age(queue),
        threshold=EXPIRING.to_seconds(),
    )


def of_lane(lane: WorkQueue, stage: Stage) -> Iterator[Rule]:
    yield Rule(
        name=f"{lane.name.name}StandsStill",
        says=f"Messages are in the {lane.name.lane} lane, and for {STILL_MINUTES} minutes no "
        "entry was written: the lane is paused (`fanfold pause --show` says by whom and why: "
        "ask them before you resume), or its workers fail or are throttled (the log of the "
        "function deliver says so). After a very large fan-out was abandoned, it passes by itself.",
        # Few messages are taken at once. If their workers fail they are hidden, and if those hand
        # back they are delayed: no message is ever seen waiting. Where no worker runs there is no
        # data about entries.
        metric=math("IF((waiting + hidden + delayed > 0) AND (FILL(entries, 0) == 0), 1, 0)")(
            waiting=lane.queue.metric_approximate_number_of_messages_visible(
                period=MINUTE, statistic="Minimum"
            ),
            hidden=lane.queue.metric_approximate_number_of_messages_not_visible(
                period=MINUTE, statistic="Minimum"
            ),
            delayed=lane.queue.metric_approximate_number_of_messages_delayed(
                period=MINUTE, statistic="Minimum"
            ),
            entries=ours(
                names.ENTRIES_DELIVERED,
                stage,
                names.DELIVER,
                "Sum",
                **{names.LANE: lane.name.lane},
            ),
        ),
        threshold=1,
        bad=STILL_MINUTES,
        of=STILL_MINUTES,
    )


def of_sweep(stage: Stage) -> Iterator[Rule]:
    """What SWEEP reports at the end of each run that came through.

    While its runs fail, nothing has become better: these alarms keep their state.
    """
    yield Rule(
        name="DeadLettersExpiring",
        says=f"A dead letter was sent {DEAD_LETTER_EXPIRING.to_days():g} days ago or before, and "
        "SQS deletes it when the 14th day is over. `fanfold dlq list` names it. Redrive it, or "
        "drop it: `fanfold dlq drop` keeps it in a file.",
        metric=ours(names.OLDEST_DEAD_LETTER_SECONDS, stage, names.SWEEP, "Maximum"),
        threshold=DEAD_LETTER_EXPIRING.to_seconds(),
        of=SEEN_MINUTES,
        missing=UNCHANGED,
    )
    yield Rule(
        name="FanoutsStalled",
        says="A post was accepted and has not reached everybody, and SWEEP has given it up. "
        "`fanfold fanout list --stalled` names it. Remove the cause, then `fanfold fanout resend`.",
        metric=ours(names.FANOUTS_STALLED, stage, names.SWEEP, "Maximum"),
        threshold=1,
        missing=UNCHANGED,
    )
    # Fan-outs do not get older than the retention: then nothing is left to deliver.
    days = min(stage.large_fanout_days, stage.retention_days / 2)
    small = (
        f"A post was accepted {SMALL_FANOUT.to_minutes():g} minutes ago, has few followers (or is "
        "not planned yet), and has not reached them all. Look at the other alarms first; `fanfold "
        "fanout list --open` names the post."
    )
    large = (
        f"A post was accepted {days:g} days ago and has not reached all its many followers: the "
        "bulk lane is paused (`fanfold pause --show`), stands still, or is too slow. `fanfold "
        "fanout list --open` names the post; see 'Late work' in docs/operations.md."
    )
    for name, says, metric, oldest in (
        ("SmallFanoutsLate", small, names.OLDEST_SMALL_OPEN_SECONDS, SMALL_FANOUT.to_seconds()),
        ("LargeFanoutsLate", large, names.OLDEST_LARGE_OPEN_SECONDS, days * 24 * 3600),
    ):
        yield Rule(
            name=name,
            says=says,
            metric=ours(metric, stage, names.SWEEP, "Maximum"),
            threshold=oldest,
            bad=REPORTS,
            of=REPORTS,
            missing=UNCHANGED,
        )
    yield Rule(
        name="SweepNotRunning",
        says=f"No run of SWEEP has come through for {SILENT_MINUTES} minutes: lost messages are "
        "not sent again, and nobody looks after open fan-outs. The log of the function sweep says "
        "why; if it is empty, see whether the rule that starts it every minute is enabled.",
        metric=ours(names.OLDEST_SMALL_OPEN_SECONDS, stage, names.SWEEP, "SampleCount"),
        threshold=1,
        operator=BELOW,
        bad=SILENT_MINUTES,
        of=SILENT_MINUTES,
        missing=BROKEN,
    )


def of_audits(ledger: HouseTable) -> Iterator[Rule]:
    """What an operator's audit puts; between two of them, nothing has become better."""
    yield Rule(
        name="AuditMissing",
        says="An audit has found readers without a post that they are owed, or what contradicts "
        "it. `fanfold audit` names some; `fanfold audit --post` finds all readers of one post, and "
        "with --repair writes what is missing. See 'The audit' in docs/operations.md.",
        metric=cloudwatch.Metric(
            namespace=names.METRICS_NAMESPACE,
            metric_name=names.AUDIT_MISSING,
            dimensions_map={f"{names.FANOUTS.name}Table": ledger.table_name},
            period=MINUTE,
            statistic="Maximum",
        ),
        threshold=1,
        missing=UNCHANGED,
    )


def of_channels(stage: Stage) -> Iterator[Rule]:
    """In a stage with channels, SWEEP reports their number likewise."""
    if not stage.channel_threshold:
        return
    yield Rule(
        name="ChannelsFull",
        says=f"There are {MOST} channels, and no room for more: the posts of further publishers "
        "with many followers are pushed, which takes longer and costs more. `fanfold channels "
        "list` says how many followers each has. Demote those with the fewest: their room is free "
        "once their entries have expired.",
        metric=ours(names.CHANNELS, stage, names.SWEEP, "Maximum"),
        threshold=MOST,
        missing=UNCHANGED,
    )


def _dead_letters(queue: WorkQueue, period: Duration) -> cloudwatch.Metric:
    # A maximum, because the metric is a gauge.
    return queue.dead_letters.metric_approximate_number_of_messages_visible(
        period=period, statistic="Maximum"
    )


def _age(queue: WorkQueue) -> cloudwatch.Metric:
    return queue.queue.metric_approximate_age_of_oldest_message(period=MINUTE, statistic="Maximum")

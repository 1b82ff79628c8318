"""Many fan-outs at once: list open and stalled ones, resend them, or end them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names, times
from fanfold.aws.items import MAX_KEYS
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import ABANDONED, STALLED, Fanout
from fanfold.fanout.status import status_of
from fanfold.messages import PlanFanout
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold.sweep.run_limits import Key
from fanfold_cli.progress import Bar
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    duration,
    failing_with,
    print_result,
    say,
    text_table,
)


@dataclass(frozen=True)
class Listed:
    rows: list[Fanout]  # the oldest of each index first
    counts: dict[str, int]  # the size of each index, by its name
    unread: list[Key]  # open ones beyond the limit


def listed(deployment: Deployment, *, stalled: bool, is_open: bool, limit: int) -> Listed:
    """Read up to `limit` rows of each requested index; of the open ones, the oldest.

    Raises `TryLater`.
    """
    stores = deployment.stores()
    ledger, fanouts = stores.ledger, stores.open_fanouts
    rows: list[Fanout] = []
    counts: dict[str, int] = {}
    keys: list[Key] = []
    if stalled:
        ids = list(ledger.stalled_ids())
        counts["stalled"] = len(ids)
        rows += (row for row in rows_of(fanouts, ids[:limit]) if row.state == STALLED)
    if is_open:
        # By id, because a key that moves during the read may be seen twice.
        found = {key.fanout_id: key for page in fanouts.key_pages() for key in page}
        keys = sorted(found.values(), key=lambda key: (key.accepted_at, key.fanout_id))
        counts["open"] = len(keys)
        ids = [key.fanout_id for key in keys[:limit]]
        rows += (row for row in rows_of(fanouts, ids) if row.is_open)  # the index lags behind
    return Listed(rows, counts, keys[limit:])


def rows_of(fanouts: OpenFanouts, ids: list[str]) -> Iterator[Fanout]:
    """The rows that exist, oldest first; an index may lag behind its table."""
    pages = (fanouts.rows(ids[i : i + MAX_KEYS]) for i in range(0, len(ids), MAX_KEYS))
    found = [row for page in pages for row in page.values() if row]
    yield from sorted(found, key=lambda row: (row.accepted_at, row.fanout_id))


def content(row: Fanout) -> dict[str, Any]:
    """A fan-out in a listing; its age is counted from its acceptance."""
    status = status_of(row)
    return {
        "ref_id": row.fanout_id,
        "publisher_id": row.publisher_id,
        "state": row.state,
        "age_seconds": max(0, clock.now_ms() - times.to_ms(row.accepted_at)) // 1000,
        "delivered": status.delivered,
        "followers_estimated": status.followers_estimated,
        "segments_pending": len(row.pending),
        "segments": row.segments,
        "rounds": row.rounds,
    }


def draw(rows: Iterable[Fanout]) -> None:
    columns = ("ref_id", "publisher", "state", "age", "delivered", "segments pending", "rounds")
    print_result(text_table(columns, map(_cells, rows), folded=columns[:2]))


def _cells(row: Fanout) -> tuple[object, ...]:
    about = content(row)
    estimated = about["followers_estimated"]
    return (
        row.fanout_id,
        row.publisher_id,
        row.state,
        duration(about["age_seconds"]),
        f"{about['delivered']:,} of {'?' if estimated is None else f'{estimated:,}'}",
        f"{about['segments_pending']:,} of {row.segments:,}" if row.segments else "not planned",
        row.rounds,
    )


def row_of(ledger: Ledger, ref_id: str) -> Fanout:
    """The row of a fan-out; raises `ExpectedError` if there is none."""
    with failing_with("The ledger cannot be read"):
        found = ledger.get(ref_id)
    if found is None:
        raise ExpectedError(unknown([ref_id]))
    return found


def unknown(ref_ids: list[str]) -> str:
    named = ", ".join(f"'{each}'" for each in ref_ids)
    return (
        f"The ledger knows no fan-out {named}: no post with this ref_id was accepted, or its "
        "row has expired."
    )


def resend(deployment: Deployment, ids: Iterable[str], bar: Bar) -> dict[str, int]:
    """Send the pending messages of each again; return how many, by id. Raises `Unsent`.

    Each fan-out is reopened first, so that SWEEP sends what is not sent here or is lost again. None
    are sent for one that has ended.
    """
    ledger, sent = deployment.stores().ledger, dict[str, int]()
    for ref_id in ids:
        row = ledger.get(ref_id)
        row = ledger.reopen(row, now=times.to_text(clock.now_ms())) if row else None
        sent[ref_id] = _send_again(deployment, row) if row else 0
        bar.reach(len(sent))
    return sent


def abandon(deployment: Deployment, ids: Iterable[str]) -> list[str]:
    """End the fan-outs and count them in a metric; return those that had not ended before."""
    ledger, ended = deployment.stores().ledger, list[str]()
    try:
        for ref_id in ids:
            now = times.to_text(clock.now_ms())
            # Or the refused call was a retry of our own, whose first answer was lost.
            if ledger.abandon(ref_id, now=now) or (
                (row := ledger.get(ref_id)) and (row.state, row.changed_at) == (ABANDONED, now)
            ):
                ended.append(ref_id)
    finally:
        if ended:
            put_count(deployment, names.FANOUTS_ABANDONED, len(ended))
    return ended


def _send_again(deployment: Deployment, row: Fanout) -> int:
    """Send the command to PLAN, or all pending segments; return how many messages."""
    settings, sqs = deployment.settings(), deployment.client("sqs")
    if row.awaits_plan:
        command = PlanFanout(fanout_id=row.fanout_id).message(group=row.publisher_id)
        WorkQueue(sqs, settings.publish_queue_url).send(command)
        return 1
    Lanes.of(settings, sqs).send_pending(row)
    return len(row.pending)


def put_count(deployment: Deployment, metric: str, count: int) -> None:
    """Add to a metric of the stack, whose dimension is the ledger's table; report a failure."""
    table = {"Name": "FanoutsTable", "Value": deployment.settings().fanouts_table}
    datum = {"MetricName": metric, "Dimensions": [table], "Value": count, "Unit": "Count"}
    try:
        deployment.client("cloudwatch").put_metric_data(
            Namespace=names.METRICS_NAMESPACE, MetricData=[datum]
        )
    except (ClientError, BotoCoreError) as error:
        say(f"This is done, but not counted in the metric {metric}: {error}")

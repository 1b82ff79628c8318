"""What `fanfold doctor` prints about an examination."""

from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

from fanfold.doctor.findings import EXAMPLES, Difference, Report, Snapshot
from fanfold_cli.terminal import counted, print_examples, print_result, say, text_table

MEANINGS = {
    Difference.MISSING: "follows without an edge: the publisher's posts do not arrive",
    Difference.ORPHANED: "edges without a follow: the user gets posts without following",
    Difference.OLDER: "edges older than their follow: posts arrive nevertheless",
    Difference.NEWER: "edges newer than their follow: an unfollow would not delete them",
    Difference.HIDDEN: "follows that are marked as ended: the publisher's posts are not shown",
    Difference.SHOWN: "ended follows without a mark: the publisher's older posts are shown",
    Difference.CHANNEL_MISSING: "follows whose channel is left out: its posts are not shown",
    Difference.CHANNEL_EXTRA: "channels read without a follow: their posts are shown",
    Difference.POST_MISSING: "posts delivered by a channel without them: nobody sees them",
    Difference.NOT_IN_HEAD: "publishers whose channel the head has lost: their posts are not shown",
    Difference.HEAD_OUTDATED: "a head of the channels from an earlier time: posts may not be shown",
    Difference.SHUT_FOLLOWED: "follows under a block: the block counts",
    Difference.BLOCK: "blocks of which a part is lost: they may not keep users apart",
    Difference.UNLISTED: "requests that their publisher does not see",
    Difference.LISTED: "requests that a publisher sees, and that do not wait",
    Difference.EXPIRES: "requests, blocks or follows that DynamoDB would delete",
    Difference.PRIVACY_BEHIND: "follows whose publisher's choice was restored: closed",
    Difference.WAITING: "requests that wait for a public publisher",
    Difference.PLACES: "users with wrong counts of follows, requests or blocks",
    Difference.UNREACHABLE: "publishers with edges above the level of their row: not delivered to",
    Difference.UNREADABLE: "items that are neither edges nor follows: never repaired",
}

# Differences that are not about one follow.
NO_FOLLOWS = (
    Difference.POST_MISSING,
    Difference.NOT_IN_HEAD,
    Difference.HEAD_OUTDATED,
    Difference.PLACES,
    Difference.UNREACHABLE,
    Difference.UNREADABLE,
)


def so_far(report: Report, *, repair: bool) -> str:
    # At least, because an interrupt does not wait for repairs in progress.
    repaired = f"; at least {report.repaired.total():,} repaired" if repair else ""
    awaiting = f"; {report.awaiting:,} more awaiting their second read" if report.awaiting else ""
    return (
        f"Stopped after {_examined(report)}: {counted(report.found.total(), 'difference')} found"
        f"{repaired}{awaiting}. It is safe to run it again."
    )


def _examined(report: Report) -> str:
    follows, edges = counted(report.follows, "follow"), counted(report.edges, "edge")
    if report.posts is None:
        return f"{follows} and {edges}"
    return f"{follows}, {edges} and {counted(report.posts, 'post')} in channels"


def show(report: Report) -> None:
    if not report.found.total():
        return
    kinds = (
        (kind.value, f"{report.found[kind]:,}", f"{report.repaired[kind]:,}", meaning)
        for kind, meaning in MEANINGS.items()
        if report.found[kind]
    )
    print_result(text_table(("what", "found", "repaired", "meaning"), kinds))
    print_examples(
        ("publisher", "level of its row", "edges up to level"),
        [
            (each.publisher_id, each.level, each.seen)
            for each in islice(report.unreachable.values(), EXAMPLES)
        ],
        report.found[Difference.UNREACHABLE],
    )
    print_examples(
        ("unreadable in", "partition key", "sort key"),
        [(table.name.lower(), *key) for table, key in report.unreadable],
        report.found[Difference.UNREADABLE],
    )
    if report.unreadable:
        say("Unreadable items are not repaired: inspect them, and delete them if they are junk.")
    print_examples(
        ("publisher", "posts that its channel lacks"),
        [(each.publisher_id, each.fanout_id) for each in report.post_missing],
        report.found[Difference.POST_MISSING],
    )
    if report.not_in_head:
        say(
            f"Not in the head of the channels: {', '.join(report.not_in_head)}. A repair adds them "
            "as active channels. If one was demoted before, demote it again with `fanfold channels "
            "demote`."
        )
    print_examples(
        ("user", "follows, requests, blocks as counted", "as they are"),
        [(user, *(", ".join(map(str, each)) for each in both)) for user, *both in report.miscounts],
        report.found[Difference.PLACES],
    )
    print_examples(
        ("user", "publisher", "what", "follow", "edge at level: version"),
        [_row(snapshot) for snapshot in report.examples],
        report.found.total() - sum(report.found[kind] for kind in NO_FOLLOWS),
    )


def _row(snapshot: Snapshot) -> tuple[str, ...]:
    row, placements = snapshot.row, sorted(snapshot.placements.items())
    follow = f"{row.state} {row.version}" if row.version else "none"
    edges = ", ".join(f"{level}: {version}" for level, version in placements) or "none"
    return row.user_id, row.publisher_id, str(snapshot.difference), follow, edges


def conclude(report: Report, *, repair: bool, scope: str) -> None:
    found, left = report.found.total(), report.left
    conclusion = f"{_examined(report)} were examined: {counted(found, 'difference')} found"
    if not found:
        print_result(f"{_examined(report)} were examined: no difference found.")
    elif repair:
        print_result(f"{conclusion}, {found - left:,} repaired, {left:,} left.")
        if report.failure:
            say(f"Run it again. The last repair that failed: {report.failure}")
    else:
        print_result(f"{conclusion}, {report.repairable:,} of which can be repaired.")
        if report.repairable:
            say(f"Run `fanfold doctor {scope} --repair` to repair them.")


def refusal(report: Report, scope: str) -> str:
    """Why nothing was removed, and what to do."""
    has = f"{report.follows:,}" if report.follows else "none"
    cause = f"The table of follows has {has} here: is a restore of it still going on, or older than"
    older = []
    if report.taken_away > report.unfollows:
        older.append("these edges")
    if report.unfollows:
        older.append("the unfollows in these marks")
    old_marks = " Or are these marks older, as after a restore of the readers?"
    repaired = report.repaired.total()
    others = f"{counted(repaired, 'other difference')} {'is' if repaired == 1 else 'are'} repaired."
    rest = f" {others}" if repaired else ""
    return (
        f"Nothing was taken away: a repair would take {_taken(report)} away from users, and "
        f"{counted(report.edges, 'edge')} were read.{rest} {cause} {' and '.join(older)}?"
        f"{old_marks if report.unfollows else ''} If all of this is to go, run `fanfold doctor "
        f"{scope} --repair --expect {report.taken_away}`."
    )


def kept(report: Report, file: Path) -> str:
    """Said before anything is removed."""
    return (
        f"{file} keeps {_taken(report)} that this takes away from users; "
        f"`fanfold doctor --put-back {file}` brings them back."
    )


def _taken(report: Report) -> str:
    follows = report.taken_away - report.unfollows
    kinds = {"follow": follows, "unfollow": report.unfollows}
    return " and ".join(counted(count, noun) for noun, count in kinds.items() if count)


def content(report: Report) -> dict[str, Any]:
    return {
        "follows": report.follows,
        "edges": report.edges,
        "found": {kind.value: report.found[kind] for kind in Difference},
        "repaired": report.repaired.total(),
        "left": report.left,
        "examples": [_example(snapshot) for snapshot in report.examples],
        "unreachable": [asdict(publisher) for publisher in report.unreachable.values()],
        "posts_in_channels": report.posts,
        "post_missing": [
            {"publisher_id": each.publisher_id, "ref_id": each.fanout_id}
            for each in report.post_missing
        ],
        "not_in_head": report.not_in_head,
        "miscounts": [
            {"user_id": user, "counted": counted._asdict(), "right": right._asdict()}
            for user, counted, right in report.miscounts
        ],
        "unreadable": [
            {"table": table.name.lower(), table.partition_key: key[0], str(table.sort_key): key[1]}
            for table, key in report.unreadable
        ],
    }


def _example(snapshot: Snapshot) -> dict[str, Any]:
    row = asdict(snapshot.row)
    return {
        **{name: row[name] for name in ("user_id", "publisher_id", "state", "version")},
        "what": snapshot.difference,
        "edges": [
            {"level": level, "version": version}
            for level, version in sorted(snapshot.placements.items())
        ],
    }

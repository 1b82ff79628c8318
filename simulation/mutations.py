"""Break one guard of the product at a time, and see that the simulation notices.

`python -m simulation.mutations` copies the packages, changes one place in the copy, and runs seeds
there until the promise is broken. A guard that nothing misses is a guard that nothing tests.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fanfold", "functions", "aws_model", "simulation")
MOST_SEEDS = 500


@dataclass(frozen=True)
class Mutation:
    """One guard: where it stands, and what the source says without it."""

    guard: str
    file: str
    old: str
    new: str


MUTATIONS = (
    Mutation(
        "condition on the ledger's segment update",
        "fanfold/fanout/ledger.py",
        'condition=f"{is_pending} AND {_IS_PLANNED}"',
        'condition=f"attribute_exists(#fanout_id) OR {is_pending} OR {_IS_PLANNED}"',
    ),
    Mutation(
        "retry by key, not by position",
        "fanfold/fanout/policy.py",
        "if ring.follower_of(edge) in lost]",
        "if edge in sent[: len(lost)]]",
    ),
    Mutation(
        "unprocessed items are sent again",
        "fanfold/fanout/policy.py",
        "        if not unprocessed:\n            self.pace",
        "        if True:\n            self.pace",
    ),
    Mutation(
        "resume position is before what was not read",
        "fanfold/fanout/backlog.py",
        "position = self._reached()",
        "position = max(self.start, ring.behind_all(self.hi))",
    ),
    Mutation(
        "resume position is at the first straggler too many, not after it",
        "fanfold/fanout/backlog.py",
        "position, lag = lag[most], lag[:most]",
        "position, lag = f'{int(lag[most], 16) + 1:016x}', lag[:most]",
    ),
    Mutation(
        "stragglers are handed back",
        "fanfold/fanout/backlog.py",
        "for edge in (*unwritten, *unread)}",
        "for edge in (*self._edges[self._next :], *unread)}",
    ),
    Mutation(
        "stragglers are not counted before they are written",
        "fanfold/fanout/backlog.py",
        "each < position and each not in lag for each in before",
        "each < position for each in before",
    ),
    Mutation(
        "stragglers are read again",
        "fanfold/fanout/backlog.py",
        "for position in lagging:",
        "for position in lagging[:0]:",
    ),
    Mutation(
        "nobody behind a straggler is written again",
        "fanfold/fanout/backlog.py",
        "most = max(max_stragglers, bisect_left(lag, self.start))",
        "most = 0",
    ),
    Mutation(
        "the ledger keeps stragglers",
        "fanfold/fanout/deliver.py",
        "Resume(end.position, end.written, end.stragglers)",
        "Resume(end.position, end.written)",
    ),
    Mutation(
        "the ledger's stragglers are delivered",
        "fanfold/fanout/deliver.py",
        "stragglers=begin.stragglers,",
        "stragglers=(),",
    ),
    Mutation(
        "a worker keeps to its pace",
        "fanfold/fanout/policy.py",
        "wake_at = self.pace.may_send_at(count, now)",
        "wake_at = now",
    ),
    Mutation(
        "unprocessed items of libcurl's answers",
        "fanfold/fanout/transport_curl.py",
        'return self.transport.entries.unwritten(decode("BatchWriteItem", body))',
        "return ()",
    ),
    Mutation(
        "a call of libcurl's that is lost is not taken for written",
        "fanfold/fanout/transport_curl.py",
        "            return body\n        if body == ALL_WRITTEN",
        "            return () if isinstance(body, Lost) else body\n        if body == ALL_WRITTEN",
    ),
    Mutation(
        "calls in flight are forgotten with their delivery",
        "fanfold/fanout/transport_curl.py",
        "self.connections.forget()",
        "pass",
    ),
    Mutation(
        "an empty answer of libcurl's is none",
        "fanfold/aws/answers.py",
        "content = json.loads(body)\n    except ValueError:\n        content = None",
        "content = json.loads(body or '{}')\n    except ValueError:\n        content = None",
    ),
    Mutation(
        "a body has every user of its batch",
        "fanfold/fanout/transport_curl.py",
        "self._between.join(users)",
        "self._between.join(users[: max(1, len(users) - 1)])",
    ),
    Mutation(
        "the ledger's resume before the hand-back",
        "fanfold/fanout/deliver.py",
        "if not self.ledger.store_resume(",
        "if False and not self.ledger.store_resume(",
    ),
    Mutation(
        "sort key from acceptance, not from a worker's clock",
        "fanfold/fanout/deliver.py",
        "entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)",
        "entry = Entry(times.to_text(clock.now_ms()) + '#' + fanout.fanout_id, "
        "fanout.publisher_id, fanout.expires_at)",
    ),
    Mutation(
        "the stored sort key wins",
        "fanfold/timeline/posts.py",
        "            return stored\n        return post",
        "            return post\n        return post",
    ),
    Mutation(
        "a tombstone is respected",
        "fanfold/fanout/publish.py",
        "        if post.deleted:",
        "        if False:",
    ),
    Mutation(
        "entries that a batch send answers as failed",
        "fanfold/aws/queues.py",
        'failed = {entry["Id"] for entry in answer.get("Failed", [])}',
        "failed: set[str] = set()",
    ),
    Mutation(
        "the ledger row before anything is sent",
        "fanfold/fanout/publish.py",
        "        self.ledger.open(",
        "        _ = (",
    ),
    Mutation(
        "edges are read consistently",
        "fanfold/follows/edges_table.py",
        '"ConsistentRead": True,\n            "Limit"',
        '"ConsistentRead": False,\n            "Limit"',
    ),
    Mutation(
        "the level is read consistently",
        "fanfold/follows/publishers_table.py",
        "consistent: bool = True",
        "consistent: bool = False",
    ),
    Mutation(
        "a level is committed before it is used",
        "fanfold/follows/growth.py",
        "        wish = grown(\n",
        "        self.levels.remember(publisher_id, seen.level + 1)\n        wish = grown(\n",
    ),
    Mutation(
        "the static level is committed before it is used",
        "fanfold/follows/levels.py",
        "        if own < static:",
        "        if False:",
    ),
    Mutation(
        "an edge is cleared from every level",
        "fanfold/follows/edges.py",
        "for level in range(top + 1):",
        "for level in (top,):",
    ),
    Mutation(
        "an edge at two levels is one",
        "fanfold/follows/ring_reader.py",
        "list(dict.fromkeys(sorted(found)))",
        "sorted(found)",
    ),
    Mutation(
        "nothing is taken that a level has not been read beyond",
        "fanfold/follows/ring_reader.py",
        "bound = min(",
        "bound = max(",
    ),
    Mutation(
        "a level has reached no further than the first shard that is not read to its end",
        "fanfold/follows/ring_reader.py",
        "return self.shards[0].after if self.shards else self.begin",
        "return self.begin",
    ),
    # Either of the two would do, as both are read consistently after the publish: so neither.
    Mutation(
        "DELIVER looks at the levels of the plan and of now",
        "fanfold/fanout/deliver.py",
        "level=max(fanout.level, self.publishers.shards(fanout.publisher_id).level)",
        "level=0",
    ),
    Mutation(
        "reconcile looks a second time",
        "fanfold/follows/follow.py",
        "if now.version == row.version:",
        "if True:",
    ),
    Mutation(
        "RELATE is asked before the row is changed",
        "fanfold/follows/follow.py",
        "        self.relation_queue.send(again.message(group=user_id, delay_seconds=delay))\n"
        "        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):\n"
        "            seen = self.follows.get(user_id, publisher_id)\n"
        "            is_late = unless_newer and seen.asked_at > asked_at\n"
        "            changed = seen if is_late else self._change(seen, wanted, asked_at)\n"
        "            if changed:\n",
        "        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):\n"
        "            seen = self.follows.get(user_id, publisher_id)\n"
        "            is_late = unless_newer and seen.asked_at > asked_at\n"
        "            changed = seen if is_late else self._change(seen, wanted, asked_at)\n"
        "            if changed:\n"
        "                self.relation_queue.send(\n"
        "                    again.message(group=user_id, delay_seconds=delay)\n"
        "                )\n",
    ),
    Mutation(
        "RELATE settles once more",
        "functions/relate.py",
        "    following.reconcile(order.user_id, order.publisher_id)",
        "    _ = order",
    ),
    Mutation(
        "no two growths in one cooldown",
        "fanfold/follows/sharding.py",
        "if abs(now_ms - shards.last_updated) < cooldown_ms:",
        "if False:",
    ),
    Mutation(
        "a publisher grows from the version that was seen",
        "fanfold/follows/publishers_table.py",
        'as_seen = "#version = :seen" if seen.version else',
        'as_seen = "#version = :seen OR #version > :seen" if seen.version else',
    ),
    Mutation(
        "only a hot key range lets a publisher grow",
        "fanfold/follows/growth.py",
        "if not is_hot:",
        "if False:",
    ),
    Mutation(
        "only its own follows let a publisher grow",
        "fanfold/follows/sharding.py",
        "if rate < OWN_SHARE * PARTITION_WRITES * 2**shards.level:",
        "if False:",
    ),
    Mutation(
        "SWEEP sends overdue segments again",
        "fanfold/fanout/sweep.py",
        "if idle_seconds <= self.overdue_seconds:",
        "if True:",
    ),
    Mutation(
        "SWEEP holds still while paused",
        "fanfold/fanout/sweep.py",
        "lane.backlog() <= NEARLY_EMPTY and not is_paused(lane.url)",
        "True",
    ),
    Mutation(
        "completion after an interrupted last update",
        "fanfold/fanout/deliver.py",
        "if not fanout.pending and fanout.state != COMPLETE:",
        "if False:",
    ),
    Mutation(
        "a dead letter only after the last attempt",
        "functions/_worker.py",
        "    except (FanfoldError, Undeliverable) as error:",
        "    except Exception as error:",
    ),
)


@dataclass(frozen=True)
class Caught:
    """After how many seeds a mutation was noticed, and by which check; None if it never was."""

    mutation: Mutation
    seeds: int | None
    by: str = ""


def copy_with(mutation: Mutation, target: Path) -> None:
    """Copy the packages, with the guard taken out; raises if the source has changed."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, target / package, ignore=ignored)
    path = target / mutation.file
    source = path.read_text()
    if source.count(mutation.old) != 1:
        raise LookupError(f"{mutation.file} does not hold the guard '{mutation.guard}' just once.")
    path.write_text(source.replace(mutation.old, mutation.new))


def catch(mutation: Mutation, *, most: int, start: int) -> Caught:
    """Run seeds on a mutated copy until one breaks the promise."""
    with tempfile.TemporaryDirectory() as folder:
        copy_with(mutation, Path(folder))
        seeds = ("--seeds", str(most), "--start", str(start), "--jobs", "1", "--first")
        done = subprocess.run(
            [sys.executable, "-m", "simulation", *seeds],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONSAFEPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
    found = re.search(r"^seed (\d+): (\w+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    if found is None:
        return Caught(mutation, None)
    return Caught(mutation, int(found[1]) - start + 1, found[2])


def table(results: Sequence[Caught]) -> str:
    """Guard, seeds needed and the check that noticed, in columns."""
    width = max(len(result.mutation.guard) for result in results)
    lines = [f"{'guard':{width}}  seeds  noticed by"]
    for result in results:
        seeds = "-" if result.seeds is None else str(result.seeds)
        lines.append(f"{result.mutation.guard:{width}}  {seeds:>5}  {result.by or 'nothing'}")
    return "\n".join(lines)


def main() -> int:
    """Try every mutation; exit status 1 if any goes unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=MOST_SEEDS, help="at most so many for each")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--only", default="", help="only guards with this text in their name")
    chosen = parser.parse_args()
    wanted = [mutation for mutation in MUTATIONS if chosen.only in mutation.guard]
    results = []
    with ThreadPoolExecutor(chosen.jobs) as threads:
        tries = [
            threads.submit(catch, mutation, most=chosen.seeds, start=chosen.start)
            for mutation in wanted
        ]
        for number, each in enumerate(tries, 1):
            results.append(each.result())
            print(f"{number} of {len(tries)}: {results[-1].mutation.guard}", file=sys.stderr)
    print(table(results))
    caught = sum(result.seeds is not None for result in results)
    print(f"mutations: {caught} of {len(results)} caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())

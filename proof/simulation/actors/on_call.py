"""Operators on call, who run commands of `fanfold` during the traffic, and repeat them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from fanfold import contract, names
from fanfold.fanout.row import ABANDONED
from fanfold_cli import kept_file
from fanfold_cli.commands import dlq, doctor, fanout, pause, seed
from fanfold_cli.dlq import dropping
from fanfold_cli.dlq.letters import HIDDEN_SECONDS
from fanfold_cli.terminal import ExpectedError
from proof.simulation.clients.history import Operation
from proof.simulation.clients.spans import Span
from proof.simulation.oracle.follows import Asked
from proof.simulation.world.aws_clients import running
from proof.simulation.world.commands import PLACE, repeat, run
from proof.simulation.world.neighbours import is_of_neighbours
from proof.simulation.world.world import World

# How often the operator looks for remaining letters in the calm: held ones come back meanwhile.
MAX_LOOKS = 10
# The share of runs in which dropped letters stay dropped.
STAY_DROPPED = 0.3
DAY_MS = 24 * 60 * 60 * 1000

resume = partial(pause.resume, lane=pause.Lane.ALL)
redrive = partial(dlq.redrive, ids=None)


def repair(stack: str) -> None:
    """Repair; if that would remove too much, repeat it with the number that it prints."""
    try:
        doctor.doctor(repair=True, whole=True, stack=stack)
    except ExpectedError:
        number = running.world.examined.taken_away
        if not number:
            raise
        doctor.doctor(repair=True, whole=True, expect=number, stack=stack)


def switch_lanes(world: World, random: Random) -> None:
    """Pause lanes, and resume them: perhaps after longer than SWEEP waits for a segment."""
    world.scheduler.sleep(random.uniform(0, 60))
    lane = random.choice(list(pause.Lane))
    repeat(world, random, partial(pause.pause, lane=lane))
    world.scheduler.sleep(random.uniform(10, 60 * 60))
    repeat(world, random, partial(pause.resume, lane=lane), times=40)


def attend_letters(world: World, random: Random, folder: Path) -> None:
    """Redrive dead letters, all or some, drop some into files, and restore files."""
    for number in range(random.randint(2, 5)):
        world.scheduler.sleep(random.uniform(5, 60))
        ids = sorted(message.id for _, message in world.dead_letters())
        some = random.sample(ids, min(len(ids), random.randint(1, 4)))
        act = random.choice(("redrive", "redrive", "drop", "drop", "restore"))
        if act == "restore" and world.letters.files:
            file = random.choice(world.letters.files)
            if file.exists():
                run(world, random, partial(dlq.restore, file=file))
        elif act == "drop" and some:
            _drop(world, random, some, folder / f"letters-{number}.jsonl")
        elif some and random.random() < 0.5:
            run(world, random, partial(dlq.redrive, ids=some))
        else:
            run(world, random, redrive)


def restore_an_old_file(world: World, random: Random, folder: Path, publisher: str) -> None:
    """Restore letters that were dropped weeks ago, one of them too old."""
    world.scheduler.sleep(random.uniform(0, 60))
    file, names_of = folder / "old.jsonl", dropping.FIELDS
    lines = []
    for user, days in (("old0", 27), ("old1", 29)):
        event = {"type": contract.FOLLOW_ADDED, "user_id": user, "publisher_id": publisher}
        first_ms = world.clock.now_ms() - days * DAY_MS
        first = {contract.FIRST_SENT_AT: str(first_ms)}
        body = json.dumps({"version": 1, **event})
        world.letters.origins[user] = body, first_ms
        letter = dict(zip(names_of, ("publish", user, user, first, body), strict=True))
        lines.append({kept_file.STACK: PLACE, **letter})
    file.write_text("\n".join(map(json.dumps, lines)))
    repeat(world, random, partial(dlq.restore, file=file))


def _drop(world: World, random: Random, ids: Sequence[str], file: Path) -> None:
    """Drop letters, or all of a queue; if the command fails, again with another file."""
    queue = random.choice(list(dlq.QueueName))
    is_all = random.random() < 0.3
    for path in (file, file.with_suffix(".again.jsonl")):
        world.letters.files.append(path)
        drop = partial(dlq.drop, to=path, yes=True)
        drop = partial(drop, queue=queue, every=True) if is_all else partial(drop, ids=list(ids))
        if run(world, random, drop) == 0:
            return


def send_again(world: World, random: Random) -> None:
    """Resend open deliveries, whether they need it or not."""
    for _ in range(random.randint(1, 4)):
        world.scheduler.sleep(random.uniform(0, 60))
        ids = _open_ids(world)
        if random.random() < 0.2:
            run(world, random, partial(fanout.resend, stalled=True))
        elif ids:
            some = random.sample(ids, random.randint(1, len(ids)))
            run(world, random, partial(fanout.resend, ref_ids=some))


def abandon(world: World, random: Random) -> None:
    """Abandon open deliveries."""
    for _ in range(random.randint(1, 3)):
        world.scheduler.sleep(random.uniform(0, 30))
        if not (ids := _open_ids(world)):
            continue
        ref_id = random.choice(ids)
        world.abandoned.setdefault(ref_id, False)  # perhaps: the command may be cut short
        if run(world, random, partial(fanout.abandon, ref_ids=[ref_id], yes=True)) == 0:
            row = world.row(names.FANOUTS, {"fanout_id": {"S": ref_id}})
            world.abandoned[ref_id] = row["state"]["S"] == ABANDONED


def _open_ids(world: World) -> list[str]:
    """As `fanfold fanout list` shows them."""
    ids = (row["fanout_id"]["S"] for row in world.fanouts() if "open_fanout" in row)
    return sorted(each for each in ids if not is_of_neighbours(each))


def note_repair(world: World, begun_ms: float) -> None:
    """A complete repair that began then has finished."""
    now_ms, rows = world.clock.now_ms(), world.rows(names.FOLLOWING)
    world.damage.is_repaired(begun_ms, now_ms, {row["user_id"]["S"] for row in rows})
    world.history.repaired(begun_ms, now_ms)


def examine(world: World, random: Random) -> None:
    """Have the doctor repair everything during follows and deliveries."""
    world.scheduler.sleep(random.uniform(0, 60))
    for _ in range(random.randint(1, 2)):
        begun_ms = world.clock.now_ms()
        if repeat(world, random, repair, times=3):
            note_repair(world, begun_ms)


def load_follows(
    world: World, random: Random, folder: Path, users: Sequence[str], publishers: Sequence[str]
) -> Callable[[], None]:
    """Load follows from a file; if that fails, the returned function loads them again."""
    pairs = [(user, publisher) for user in users for publisher in publishers]
    pairs = sorted(random.sample(pairs, random.randint(1, len(pairs))))
    file = folder / "follows.csv"
    lines = ["publisher,follower", *(f"{publisher},{user}" for user, publisher in pairs)]
    file.write_text("\n".join(lines))
    world.scheduler.sleep(random.uniform(0, 40))
    history, now = world.history, world.clock.now_ms()
    again = len(pairs) % 2 == 0
    operations = [
        Operation("follow", user, publisher, world.scheduler.turns, now)
        for user, publisher in pairs
    ]
    for operation in operations:
        history.add(operation)

    def load(stack: str) -> None:
        requests = [Asked(True, world.clock.now_ms(), is_due=False, is_import=True) for _ in pairs]
        for pair, request in zip(pairs, requests, strict=True):
            history.relations[pair].requests.append(request)
        is_done = False
        try:
            seed.seed(edges=file, stack=stack, again=again)
            is_done = True
        finally:
            now_ms: float = world.clock.now_ms()
            if not is_done:  # writes that it gave up may still land
                now_ms = max(now_ms, world.scheduler.current.lands_ms)
            for pair, request in zip(pairs, requests, strict=True):
                asked = history.relations[pair].requests
                request.is_due = is_done and (again or all(each.follows for each in asked))
                work = Span(request.begun) if request.is_due else None
                history.relations[pair].ends(request, now_ms, work)

    def try_to(times: int) -> None:
        if operations[0].is_acknowledged or not repeat(world, random, load, times=times):
            return
        for operation in operations:
            operation.ended, operation.ended_ms = world.scheduler.turns, world.clock.now_ms()

    try_to(3)
    return lambda: try_to(MAX_LOOKS)


def settle(
    world: World, random: Random, folder: Path, unfinished: Sequence[Callable[[], None]]
) -> None:
    """In the calm, finish everything: no letter, file or difference is left."""
    repeat(world, random, resume)
    repeat(world, random, partial(pause.resume, lane=pause.Lane.PUBLISH))
    for finish in unfinished:
        finish()
    _empty(world, random)
    for file in world.letters.files:
        if random.random() < STAY_DROPPED:
            world.letters.lose(file)
        elif file.exists():
            repeat(world, random, partial(dlq.restore, file=file))
    _empty(world, random)
    if world.damage.is_ledger_restored:
        drop_what_is_left(world, random, folder)
    run(world, random, partial(doctor.doctor, whole=True))
    world.first_examination = world.examined
    world.damage.known = world.damage.lasting() | world.damage.unrelated
    examine(world, random)


def drop_what_is_left(world: World, random: Random, folder: Path) -> None:
    """Drop letters that break the contract, such as orders whose ledger rows are lost.

    Repeat it while any are left: SQS may have copies of a letter, and deletes one at a time.
    """
    for look in range(MAX_LOOKS):
        if look:
            world.scheduler.sleep(HIDDEN_SECONDS)
        for queue in sorted({queue.name.lower() for queue, _ in world.dead_letters()}):
            file = folder / f"left-{queue}-{look}.jsonl"
            world.letters.files.append(file)
            drop = partial(dlq.drop, queue=dlq.QueueName(queue), every=True, to=file, yes=True)
            run(world, random, drop)
            world.letters.lose(file)
        if not world.dead_letters():
            return


def _empty(world: World, random: Random) -> None:
    """Redrive dead letters until only those that break the contract are left."""
    for _ in range(MAX_LOOKS):
        repeat(world, random, redrive)
        world.scheduler.sleep(HIDDEN_SECONDS)
        if all("kind" in message.attributes for _, message in world.dead_letters()):
            return

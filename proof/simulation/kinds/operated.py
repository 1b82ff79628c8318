"""A world in which operators run commands of `fanfold` during traffic and faults.

Accidents give them work: messages that fail until they are dead letters, and edges that are deleted
or put by hand. Commands fail and are killed like functions. When all is calm, the operators finish
what they began.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

from fanfold_cli.commands import doctor
from proof.simulation.actors import (
    accidents,
    audiences,
    editors,
    on_call,
    operators,
    promoters,
    publishers,
    restores,
    users,
)
from proof.simulation.checks import audit
from proof.simulation.checks.evidence import Evidence
from proof.simulation.checks.judge import CHECKS
from proof.simulation.kinds import channels
from proof.simulation.kinds.kind import Kind
from proof.simulation.world.commands import installed, run
from proof.simulation.world.neighbours import Neighbours
from proof.simulation.world.world import World

# The share of worlds with channels.
CHANNELS = 0.3


def live(world: World) -> None:
    """Run the world to its end."""
    random = Random(f"{world.seed} operated")
    # From a separate generator, so that worlds without channels stay as they were.
    promoting = Random(f"{world.seed} operated channels")
    if promoting.random() < CHANNELS:
        world.channels.stage = channels.drawn(promoting)
    unfinished: list[Callable[[], None]] = []
    world.has_operators = True
    audit.attend(world)
    with tempfile.TemporaryDirectory() as folder, installed():
        world.run(
            partial(
                play, random=random, promoting=promoting, folder=Path(folder), unfinished=unfinished
            )
        )
        world.run(
            lambda _: world.start_client(
                "operator", partial(on_call.settle, world, random, Path(folder), unfinished)
            )
        )


def play(
    world: World,
    *,
    random: Random,
    promoting: Random,
    folder: Path,
    unfinished: list[Callable[[], None]],
) -> None:
    """Start clients, accidents and operators; few of each, because commands take long."""
    if world.is_busy:
        Neighbours(world)
    posting = [f"p{number}" for number in range(random.randint(1, 2))]
    people = [f"u{number}" for number in range(random.randint(1, 8))]
    world.faults.hot = frozenset(random.sample(people, 1))

    def start(share: float, name: str, act: Callable[..., object], *arguments: object) -> None:
        if random.random() < share:
            world.start_client(name, partial(act, world, *arguments))

    for user in people:
        start(1.0, user, users.use, user, posting)
    for publisher in posting:
        start(1.0, publisher, publishers.publish, publisher)
    editors.start(world, posting)
    audiences.start(world, people, posting)
    for user in ("h0", "h1"):
        start(0.6, user, users.waver, random, user, posting[0])
    start(0.3, "noise", publishers.send_noise)
    start(0.7, "bad deploy", accidents.fail_messages, random)
    start(0.5, "accident", accidents.damage_edges, random, people, posting)
    start(0.2, "shards", operators.grow_shards, posting[0])
    start(1.0, "letters", on_call.attend_letters, random, folder)
    if world.channels.stage.threshold > 0:
        act = partial(promoters.promote_and_demote, world, promoting, posting)
        world.start_client("promoter", act)
    is_restored, restoring = random.random() < 0.4, random
    if world.has_audiences:  # from a separate generator, so that the others stay as they were
        restoring = Random(f"{world.seed} a restore")
        is_restored = restoring.random() < 0.4
    if is_restored:
        world.start_client("restore", partial(restores.restore_a_table, world, restoring))
    else:
        start(0.4, "lanes", on_call.switch_lanes, random)
    start(0.4, "deliveries", on_call.send_again, random)
    start(0.1, "archive", on_call.restore_an_old_file, random, folder, posting[0])
    start(0.2, "impatient", on_call.abandon, random)
    start(0.5, "doctor", on_call.examine, random)

    def load(world: World) -> None:
        everybody = [*people, "h0", "h1", "i0", "i1"]
        unfinished.append(on_call.load_follows(world, random, folder, everybody, posting))

    start(0.4, "import", load)


def the_doctor_finds_nothing_after_its_repair(found: Evidence) -> Iterator[str]:
    """After a complete repair, its examination ends with exit code 0."""
    world = found.world
    codes: list[int | None] = []

    def examine() -> None:
        codes.append(run(world, Random(0), partial(doctor.doctor, whole=True)))

    with installed():
        world.run(lambda each: each.start_client("doctor", examine))
    if codes != [0]:
        yield f"The doctor ends with {codes[0]}."


def the_doctor_finds_only_what_accidents_did(found: Evidence) -> Iterator[str]:
    """In its first examination in the calm; functions and imports have repaired all else."""
    known, report = found.world.damage.known, found.world.first_examination
    for snapshot in report.examples:
        if snapshot.pair not in known:
            yield f"The doctor finds {snapshot.pair} {snapshot.difference}, without an accident."
    for publisher in report.unreachable:
        if publisher not in {each for _, each in known}:
            yield f"The doctor finds {publisher} unreachable, without an accident."
    for miscount in report.miscounts:
        if miscount.user_id not in found.world.damage.miscounted:
            yield f"The doctor finds {miscount}, without an accident."


def only_letters_that_break_the_contract_are_left(found: Evidence) -> Iterator[str]:
    """A redrive leaves no others when nothing fails.

    The exception is an edit of a post that never came, such as one over the rate: each redrive
    tries it in vain.
    """
    for queue, message in found.world.dead_letters():
        if message.body not in found.world.noise and not found.lacks_its_post(message):
            yield f"A dead letter of {queue.name} is left: {message.body[:80]}."


OF_OPERATORS = (
    the_doctor_finds_only_what_accidents_did,
    the_doctor_finds_nothing_after_its_repair,
    only_letters_that_break_the_contract_are_left,
)
KIND = Kind("operated", 0.08, live, (*CHECKS, *OF_OPERATORS))

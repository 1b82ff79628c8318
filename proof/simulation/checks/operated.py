"""What must hold where operators have acted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import TypeAlias

from fanfold_cli.commands import doctor
from proof.simulation.checks.evidence import Evidence
from proof.simulation.commands import installed, run

Check: TypeAlias = Callable[[Evidence], Iterator[str]]


def the_doctor_finds_nothing_after_its_repair(found: Evidence) -> Iterator[str]:
    """Its examination, once everything is repaired, ends with exit code 0."""
    world = found.world
    codes: list[int | None] = []

    def examine() -> None:
        codes.append(run(world, Random(0), partial(doctor.doctor, whole=True)))

    with installed():
        world.run(lambda each: each.start_client("doctor", examine))
    if codes != [0]:
        yield f"The doctor ends with {codes[0]}."


def the_doctor_finds_only_what_accidents_did(found: Evidence) -> Iterator[str]:
    """Its first examination in the calm: all else, the functions and an import have mended."""
    known, report = found.world.harmed.known, found.world.first_examination
    for snapshot in report.examples:
        if snapshot.pair not in known:
            yield f"The doctor finds {snapshot.pair} {snapshot.difference}, without an accident."
    for publisher in report.unreachable:
        if publisher not in {each for _, each in known}:
            yield f"The doctor finds {publisher} unreachable, without an accident."


def only_letters_that_break_the_contract_are_left(found: Evidence) -> Iterator[str]:
    """A redrive leaves no other ones, once nothing fails any more.

    But for an edit of a post that never came, such as one that was over the rate: each redrive
    tries it in vain.
    """
    for queue, message in found.world.dead_letters():
        if message.body not in found.world.noise and not found.lacks_its_post(message):
            yield f"A dead letter of {queue.name} is left: {message.body[:80]}."


CHECKS: tuple[Check, ...] = (
    the_doctor_finds_only_what_accidents_did,
    the_doctor_finds_nothing_after_its_repair,
    only_letters_that_break_the_contract_are_left,
)

"""What a fresh process costs up to its first answer, compared with a plain boto3 function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from proof.bench import doors
from proof.bench.endpoint import in_environment
from proof.bench.figures import Bars, BenchResult, Figure, Row
from proof.bench.fresh import FreshAnswer, answer
from proof.bench.paired import Paired, paired
from proof.bench.progress import with_progress

LIMIT = 50  # entries of the page that is read
FOLLOWERS = 100  # of the delivered post: four batches
ROUNDS, SHORT_ROUNDS = 10, 3
AGAINST = "CPU of a Powertools and boto3 function to the same first answer"


@dataclass(frozen=True)
class Start:
    """A door of ours and a plain function that does the same."""

    name: str
    target: float
    ours: str  # a module, like theirs
    event: dict[str, Any]
    is_right: Callable[[Any], bool]

    @property
    def theirs(self) -> str:
        return f"proof.bench.cold_start.plain_{self.name}"

    def first_answers(self, rounds: int) -> Sequence[tuple[FreshAnswer, FreshAnswer]]:
        """Pairs of fresh processes, in the order A B B A."""
        pairs = []
        for _ in with_progress(f"cold-start, {self.name}", range(rounds)):
            a, b = self._run(self.ours), self._run(self.theirs)
            c, d = self._run(self.theirs), self._run(self.ours)
            pairs += [(a, b), (d, c)]
        return pairs

    def _run(self, door: str) -> FreshAnswer:
        found = answer(door, self.event)
        if not self.is_right(found.answer):
            raise RuntimeError(f"{door} answered {found.answer}.")
        return found


def _is_page(answer: Any) -> bool:
    return bool(answer["statusCode"] == 200 and answer["body"].count('"ref_id"') == LIMIT)


def _is_taken(answer: Any) -> bool:
    return bool(answer == {"batchItemFailures": []})


def _is_accepted(answer: Any) -> bool:
    return bool(answer["statusCode"] == 202 and "ref_id" in answer["body"])


def run(*, short: bool) -> BenchResult:
    starts = (
        Start("api", 0.45, "functions.api", doors.api(), _is_accepted),
        Start("deliver", 0.35, "functions.deliver", doors.deliver(FOLLOWERS), _is_taken),
        Start("query", 0.30, "functions.timeline", doors.timeline(LIMIT), _is_page),
    )
    figures, rows, bars, setting = [], [], {}, {}
    with in_environment() as stub:
        for start in starts:
            start.first_answers(1)  # compiles what is not compiled yet
            pairs = start.first_answers(SHORT_ROUNDS if short else ROUNDS)
            cpu = _share([(ours.cpu, theirs.cpu) for ours, theirs in pairs])
            figures.append(
                Figure(f"cold_start.{start.name}", cpu.ratio, start.target, "x", AGAINST)
            )
            wall = _share([(ours.wall, theirs.wall) for ours, theirs in pairs])
            rows.append(Row(f"{start.name}, by the clock", wall.ratio, "x", wall.interval))
            both = zip(*pairs, strict=True)
            for whose, each in zip(("Fanfold", "Powertools and boto3"), both, strict=True):
                name = f"{start.name}, {whose}"
                bars[name] = 1e3 * median(one.cpu for one in each)
                clock = 1e3 * median(one.wall for one in each)
                rows.append(Row(name, bars[name], "ms", f"of CPU; {clock:.0f} ms by the clock"))
            setting[f"interval of {start.name}"] = cpu.interval
    return BenchResult(
        figures=figures,
        rows=rows,
        setting={
            **setting,
            "work": f"a publish; a post to {FOLLOWERS} followers by DELIVER; a page of {LIMIT} "
            "entries; over TLS",
            "time": "from before the import, in a bare interpreter, to the first answer",
            "pinned": stub.pinned,
        },
        chart=Bars(title="CPU of a cold start, with the first answer", unit="ms", bars=bars),
    )


def _share(pairs: Sequence[tuple[float, float]]) -> Paired:
    """The ratio of ours to theirs, from pairs (ours, theirs)."""
    return paired([(theirs, ours) for ours, theirs in pairs])

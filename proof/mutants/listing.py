"""The fixed list of mutants, `mutants.diff`: what each one changes, and who notices.

Entries contain source text instead of line numbers, so they still fit when code moves. A test finds
those that no longer fit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.diff")
EQUIVALENT = "equivalent: "
SIMULATION = "simulation"
GUARD = "guard: "

_HEAD = """\
# After `@@` what is changed; then who noticed it the last time, and is asked first (`--note`
# writes it), or why nobody can. After `-` the source, which stands in the file exactly once and
# need not be whole lines; after `+` the mutant.
#
# `guard: ` and a sentence: this guard is taken out, and the simulation must notice, in worlds of
# the `@kind` that may follow. The others are named for the function and for what is changed.
"""

# Ordered by duration, from a second to half a minute.
_FANOUT = ("backlog", "status", "plan", "deliver", "ledger", "pacing", "worker_steps", "resume")
_PIPELINE = ("transports", "status", "expiry", "publish", "pipeline", "sweep")
_FOLLOWS = ("audience", "edges", "following", "follow_stores", "ring", "sharding", "ring_reader")
_FOLLOW = ("private", "backfill", "cli_seed", "follow_crowds", "follow", "shards", "pipeline")
_SWEEP = ("sweep_at_scale", "metrics", "sweep")
_POSTS = ("private", "expiry", "timeline", "edit", "feed", "publish", "pipeline")
_WORKER = ("dead_letters", "metrics", "edit", "follow_crowds", "publish", "follow", "pipeline")
# The tests for a folder or module: unit tests, then integration tests.
_TESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "fanfold/fanout": (_FANOUT, _PIPELINE),
    "fanfold/fanout/lookup": (("lookup", "plan", "deliver"), _PIPELINE),
    "fanfold/fanout/publishing": (("publishing", "post_rate"), _POSTS),
    "fanfold/fanout/transport": (("loop", "worker_steps", "deliver"), ("transports", "pipeline")),
    "fanfold/sweep": (("silence", "run_limits", "sweeping", "ledger"), _SWEEP),
    "fanfold/follows": (_FOLLOWS, _FOLLOW),
    "fanfold/follows/backfill": (("backfill_passes", "backfill"), ("backfill",)),
    "fanfold/follows/follower_estimate": (("followers", "plan", "follower_estimate"), ()),
    "fanfold/follows/publisher/followers": (("followers",), ("followers",)),
    "fanfold/timeline": (("hydration", "posts", "follow_stores", "paging"), _POSTS),
    "fanfold/timeline/read_marker": ((), ("marker",)),
    "fanfold/timeline/marks": (("marks",), ("marks",)),
    "fanfold/timeline/mutes": ((), ("marks",)),
    "fanfold/channels": ((), ("channels_read",)),
    "fanfold/channels/cleanup": ((), ("channel_cleanup",)),
    "fanfold/channels/delivery": ((), ("channel_delivery",)),
    "fanfold/channels/following": ((), ("channels_follow", "channels_read")),
    "fanfold/channels/head_table": ((), ("channel_heads",)),
    "fanfold/channels/parts": (("channel_parts",), ("channels_read",)),
    "fanfold/channels/promotion": ((), ("channel_delivery",)),
    "fanfold/channels/windows": (("channel_parts",), ("channels_read",)),
    "fanfold/timeline/visibility": (("paging",), ("marks", "unread", "channels_read")),
    "fanfold/timeline/unread": ((), ("unread", "marker")),
    "fanfold/audit": (("rule",), ("audit",)),
    "fanfold/aws": (
        ("queues", "retries", "letters"),
        ("dead_letters", "cli_dlq", "cli_drop", "sweep"),
    ),
    "fanfold/aws/dynamodb": (("lookup",), ("sweep",)),
    "fanfold/json_text": (("json_text", "intake", "messages"), ("json", "publish", "cli_drop")),
    "fanfold/messages": (("messages", "plan"), ("dead_letters", "pipeline", "cli_dlq")),
    "functions": (("worker",), _WORKER),
    "functions/_wiring": ((), ("backfill", *_WORKER)),
    "functions/sweep": ((), ("metrics", "sweep", "dead_letters")),
}
# The protocol of deliveries and follows. It leaves out values without decisions (names, settings,
# times), code that only passes calls on (transports, HTTP functions, clients), and the doctor and
# budgets, whose mistakes lose nothing.
MODULES = (
    *(
        f"fanfold/fanout/{name}.py"
        for name in (
            "backlog",
            "batch_retries",
            "deliver",
            "lanes",
            "ledger",
            "lookup",
            "pacing",
            "plan",
            "publishing/post_rate",
            "publishing/post_time",
            "publishing/publish",
            "row",
            "segment_size",
            "transport/loop",
            "worker_steps",
        )
    ),
    *(f"fanfold/sweep/{name}.py" for name in ("oldest", "open_fanouts", "run_limits")),
    *(f"fanfold/sweep/{name}.py" for name in ("silence", "sweep")),
    *(
        f"fanfold/follows/{name}.py"
        for name in (
            "backfill",
            "bulk_follow",
            "edges",
            "edges_table",
            "follow",
            "follower_estimate",
            "follows_table",
            "levels",
            "publisher/access",
            "publisher/audience",
            "publisher/followers",
            "publisher/privacy",
            "publishers_table",
            "relation",
            "relations",
            "ring_reader",
            "sharding",
        )
    ),
    *(
        f"fanfold/timeline/{name}.py"
        for name in (
            "entries",
            "feed",
            "late",
            "read_marker",
            "marks",
            "mutes",
            "outbox",
            "page_reads",
            "paging",
            "post_cache",
            "posts",
            "readers",
            "unread",
            "visibility",
        )
    ),
    *(f"fanfold/channels/{name}.py" for name in ("cleanup", "delivery", "following")),
    *(f"fanfold/channels/{name}.py" for name in ("head_table", "parts")),
    *(f"fanfold/channels/{name}.py" for name in ("promotion", "reading", "union", "windows")),
    *(f"fanfold/aws/{name}.py" for name in ("dead_letters", "dynamodb", "queues", "retries")),
    "fanfold/json_text.py",
    "fanfold/messages.py",
    *(f"fanfold/audit/{name}.py" for name in ("reads", "rule")),
    *(
        f"functions/{name}.py"
        for name in ("_wiring", "_worker", "deliver", "plan", "relate", "sweep")
    ),
)


@dataclass(frozen=True)
class Mutant:
    """A change of a module: a text that occurs exactly once in it, and its replacement."""

    file: str
    name: str  # the function and the change, or `guard: ` and what it guarantees
    old: str
    new: str
    known: str = ""  # a test, `simulation <seed>`, or `equivalent: <reason>`
    kind: str = ""  # of the worlds that must notice its removal; by default as drawn
    comment: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.file, self.old, self.new

    @property
    def is_guard(self) -> bool:
        """Whether the simulation must notice it."""
        return self.name.startswith(GUARD)

    @property
    def is_argued(self) -> bool:
        return self.known.startswith(EQUIVALENT) and not self.is_guard

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").replace("/", ".")

    def source(self) -> str:
        """The mutated module; raises `LookupError` if the text is not in it exactly once."""
        path = ROOT / self.file
        plain = path.read_text() if path.exists() else ""
        if plain.count(self.old) != 1:
            raise LookupError(
                f"{self.file} must hold the text of '{self.name}' exactly once; correct it in "
                "proof/mutants/mutants.diff."
            )
        return plain.replace(self.old, self.new)


@dataclass(frozen=True)
class Verdict:
    """Who noticed a mutant: a test, or the simulation at a seed; nobody if `by` is empty."""

    by: str = ""
    timed_out: bool = False
    seconds: float = 0.0
    check: str = ""  # of the simulation


def tests_of(file: str) -> list[str]:
    """The tests that may notice a mutant of this module, the fast ones first."""
    stem = file.removesuffix(".py")
    while stem not in _TESTS:
        stem = stem.rpartition("/")[0]
    units, integrations = _TESTS[stem]
    named = Path(file).stem
    first = sorted(units, key=lambda unit: unit not in named)  # its own tests
    return [
        next((ROOT / "tests" / kind).rglob(f"test_{name}.py")).relative_to(ROOT).as_posix()
        for kind, names in (("unit", first), ("integration", integrations))
        for name in names
    ]


def read(path: Path = LIST) -> list[Mutant]:
    """The listed mutants."""
    return [
        _entry(of_file.partition("\n")[0], entry.split("\n"))
        for of_file in path.read_text().split("\n--- ")[1:]
        for entry in of_file.split("\n@@ ")[1:]
    ]


def _entry(file: str, lines: list[str]) -> Mutant:
    def marked(mark: str) -> str:
        return "\n".join(line.removeprefix(mark) for line in lines if line.startswith(mark))

    name, _, known = lines[0].partition(" | ")
    return Mutant(file, name, marked("-"), marked("+"), known, marked("@kind "), marked("# "))


def place(file: str) -> tuple[int, str]:
    """The position of a module in list and table; guards may be in modules outside `MODULES`."""
    return (MODULES.index(file) if file in MODULES else len(MODULES)), file


def write(mutants: Iterable[Mutant], path: Path = LIST) -> None:
    """Write the list, by module and in source order."""
    lines = [_HEAD]
    by_place = sorted(
        mutants, key=lambda each: (place(each.file), (ROOT / each.file).read_text().find(each.old))
    )
    for file, entries in groupby(by_place, key=lambda each: each.file):
        lines.append(f"--- {file}")
        for each in entries:
            lines.append(f"@@ {each.name}{' | ' if each.known else ''}{each.known}")
            for mark, text in (("@kind ", each.kind), ("# ", each.comment)):
                lines += (f"{mark}{line}" for line in text.splitlines())
            for mark, text in (("-", each.old), ("+", each.new)):
                lines += (f"{mark}{line}" for line in text.split("\n"))
    path.write_text("\n".join(lines) + "\n")

"""Which module may import which, and read the clock: rules as data, and their checker."""

import ast
import graphlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Lines of Python, with blank ones and comments. A bound only comes down; 26,500, 25,000 and
# 40,000 are the next.
BOUNDS = {
    "the product": (("fanfold", "functions", "infra", "fanfold_cli", "fanfold_client"), 35_258),
    "the proof": (("proof", "tools"), 31_191),
    "the tests": (("tests",), 54_095),
}

# A reader finds a module in the listing of its folder.
MOST_SIDE_BY_SIDE = 14
FOLDERS = {
    *("clients", "docs", "events", "examples", "fanfold", "fanfold_cli", "fanfold_client"),
    *("functions", "infra", "proof", "tests", "tools"),
}

# The modules beside the folders of fanfold/ import the standard library only, so all may read them.
GROUND = (
    *(
        f"fanfold.{path.stem}"
        for path in sorted((ROOT / "fanfold").glob("[!_]*.py"))
        if path.stem != "stores"
    ),
    "fanfold.invariants",
)
# Values and pure functions: they run in a simulation, a property test and a synth without any
# library, and import only each other.
DECISIONS = (
    *(name for name in GROUND if name != "fanfold.clock"),
    "fanfold.audit.sampling",
    "fanfold.aws.early_messages",
    "fanfold.aws.items",
    "fanfold.aws.retries",
    "fanfold.aws.senders",
    "fanfold.channels.head",
    "fanfold.channels.parts",
    "fanfold.channels.promotion",
    "fanfold.timeline.late",
    "fanfold.timeline.marks",
    "fanfold.timeline.paging",
    "fanfold.timeline.page_reads",
    "fanfold.follows.ring",
    "fanfold.follows.ring_reader",
    "fanfold.follows.sharding",
    "fanfold.follows.relation",
    "fanfold.fanout.row",
    "fanfold.fanout.backlog",
    "fanfold.fanout.pacing",
    "fanfold.fanout.publishing.post_time",
    "fanfold.fanout.worker_steps",
    "fanfold.fanout.batch_retries",
    "fanfold.fanout.segment_size",
    "fanfold.sweep.oldest",
    "fanfold.sweep.run_limits",
    "fanfold.sweep.silence",
)
SHARED = tuple(f"functions.{path.stem}" for path in sorted((ROOT / "functions").glob("_[!_]*.py")))
EXAMPLES = tuple(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "examples").rglob("*.py"))
)
AWS = (*GROUND, "fanfold.aws", "mypy_boto3_*")
TIMELINE = (*AWS, "fanfold.timeline")
CHANNELS = (*TIMELINE, "fanfold.channels")
FOLLOWS = (*CHANNELS, "fanfold.follows")
CLI = ("fanfold_cli", "fanfold_client", "fanfold")
BOTO3 = ("boto3", "botocore")
SIMULATION = (
    "proof.simulation",
    "proof.model",
    "proof.simulation.stage",
    "fanfold",
    "functions",
    "fanfold_cli",
)


@dataclass(frozen=True)
class Rule:
    """What a module and all below it may import besides the standard library."""

    module: str
    may_import: tuple[str, ...]
    because: str


# The rule with the longest name that covers a module applies.
RULES = (
    Rule("fanfold", GROUND, "the modules of fanfold/ import the standard library only"),
    *(Rule(module, DECISIONS, "decisions are pure") for module in DECISIONS),
    Rule("fanfold.clock", (), "a simulation replaces it whole"),
    Rule("fanfold.stores", ("fanfold", "mypy_boto3_*"), "it composes the stores of all folders"),
    Rule("fanfold.aws", AWS, "it calls AWS, and decides nothing"),
    Rule("fanfold.aws.boto", (*AWS, "boto3", "botocore"), "only this module imports boto3"),
    Rule("fanfold.aws.connections", (*AWS, "pycurl"), "only this module imports libcurl"),
    Rule("fanfold.aws.curl", AWS, "it calls through connections"),
    Rule("fanfold.timeline", TIMELINE, "a timeline knows neither channels nor followers"),
    Rule("fanfold.channels", CHANNELS, "channels are timelines that many read"),
    Rule("fanfold.timeline.post_cache", (*TIMELINE, "cachetools"), "it caches posts"),
    Rule("fanfold.follows", FOLLOWS, "a follow does not know how a post is delivered"),
    Rule("fanfold.follows.levels", (*FOLLOWS, "cachetools"), "it caches levels"),
    Rule("fanfold.follows.publisher.privacy", (*FOLLOWS, "cachetools"), "it remembers privacies"),
    Rule("fanfold.follows.backfill", (*FOLLOWS, "cachetools"), "it caches pages of outboxes"),
    Rule("fanfold.fanout", (*FOLLOWS, "fanfold.fanout"), "it knows neither Lambda nor deployment"),
    Rule(
        "fanfold.sweep",
        (*AWS, "fanfold.fanout", "fanfold.sweep"),
        "it watches deliveries, and none of them knows it",
    ),
    Rule(
        "fanfold.doctor",
        (*FOLLOWS, "fanfold.fanout.row", "fanfold.doctor"),
        "it examines follows and rows of the ledger, and nothing depends on it",
    ),
    Rule(
        "fanfold.audit",
        (*FOLLOWS, "fanfold.fanout", "fanfold.stores", "fanfold.audit"),
        "it reads what deliveries have written, and nothing depends on it",
    ),
    Rule(
        "fanfold.audit.rule",
        (*DECISIONS, "fanfold.timeline.entries", "fanfold.timeline.posts"),
        "it decides, and reads nothing",
    ),
    Rule(
        "functions",
        ("fanfold", "aws_lambda_powertools", *SHARED, "mypy_boto3_*"),
        "a function does not import another function",
    ),
    Rule(
        "functions._http",
        ("fanfold", "aws_lambda_powertools", "functions._logs", "functions._users"),
        "it serves all HTTP functions",
    ),
    Rule(
        "functions._worker",
        ("fanfold", "aws_lambda_powertools", "functions._logs", "mypy_boto3_*"),
        "it serves all workers",
    ),
    Rule(
        "functions._logs",
        (*GROUND, "aws_lambda_powertools", "functions._reports"),
        "it writes lines, and loads what counts only when an invariant is broken",
    ),
    Rule("functions._intake", DECISIONS, "it validates, and calls nothing"),
    Rule("functions._users", DECISIONS, "it judges claims, and calls nothing"),
    Rule(
        "infra",
        ("infra", "aws_cdk", "constructs", "jsii", "uv", *DECISIONS),
        "deploy time reads the modules of fanfold/ alone",
    ),
    Rule("tools.audit", ("tools.audit", "pycurl"), "it looks at packages, and at nothing of ours"),
    Rule("app", ("aws_cdk", "infra"), "the CDK app places the stack"),
    Rule("hatch_build", ("hatchling",), "it says what a wheel holds, and runs nothing of it"),
    *(
        Rule(
            example,
            ("aws_cdk", "constructs", "fanfold_cdk", "fanfold_client"),
            "it has the wheel alone",
        )
        for example in EXAMPLES
        if not example.startswith("examples.streams.consumer")
    ),
    Rule("examples.streams.consumer.hear", ("boto3",), "it runs on Lambda, which has boto3"),
    Rule("fanfold_client", (*GROUND, "fanfold_client", "urllib3"), "it knows the contract alone"),
    Rule(
        "fanfold_client.connections",
        ("urllib3", "botocore"),
        "it finds the certificates of this machine",
    ),
    Rule(
        "fanfold_cli",
        (*CLI, *BOTO3, "click", "mypy_boto3_*", "rich", "typer", "urllib3"),
        "the operator's tool drives the product, and is installed without its functions",
    ),
    Rule(
        "fanfold_cli.local",
        (
            *(*GROUND, "botocore", "fanfold_cli.local"),
            *(f"fanfold_cli.{name}" for name in ("aws", "terminal", "progress", "stack")),
        ),
        "commands use the local engine, never the other way round",
    ),
    Rule("fanfold_cli.local.guard", ("ministack",), "it runs in the engine's own process"),
    Rule(
        "fanfold_cli.commands.console",
        ("fanfold_cli", "typer"),
        "this command alone opens the page",
    ),
    Rule("fanfold_cli.console", CLI, "it shows a stack, and acts as the commands do"),
    Rule(
        "proof.hurt",
        (*CLI, "proof.hurt", "proof.model", "proof.simulation", "botocore"),
        "it hurts a local stack with what the simulation has",
    ),
    Rule(
        "fanfold_cli.run.demo",
        (*CLI, "proof.hurt", "typer"),
        "with --hurt it opens the page, and only then imports it",
    ),
    Rule("tools", ("tools",), "it runs the commands of the Makefile, and imports none of them"),
    Rule(
        "fanfold.history",
        (*GROUND, "fanfold.history"),
        "it tells what doors answered, and changes nothing",
    ),
    Rule(
        "proof.history",
        (*GROUND, "fanfold.history.lines", "proof.history", "proof.simulation.oracle.follows"),
        "it judges by lines alone",
    ),
    Rule("proof.model", ("proof.model", "botocore"), "a model of AWS knows nothing of Fanfold"),
    Rule(
        "proof.simulation",
        (*SIMULATION, "aws_lambda_powertools", "botocore", "greenlet", "typer"),
        "a simulation runs the real functions and commands, and silences what they print",
    ),
    Rule(
        "proof.aws_verify",
        (*CLI, *BOTO3, "proof.aws_verify", "proof.history", "typer", "urllib3"),
        "it uses the service as its clients and operators do",
    ),
    Rule(
        "tools.contract_docs",
        ("tools.contract_docs", "fanfold", "functions", "infra.settings"),
        "it writes down the contract that the functions keep",
    ),
    Rule(
        "proof.mutants",
        ("proof.mutants", "hypothesis", "pytest"),
        "it changes the product's source, and never imports it",
    ),
    Rule(
        "proof.bench",
        (
            *(*SIMULATION, "proof.bench", "aws_lambda_powertools", *BOTO3, "greenlet"),
            *("matplotlib", "mypy_boto3_*", "rich", "trustme"),
        ),
        "a benchmark runs the real functions and their rivals",
    ),
)

# In the product and its functions, only CLOCK reads the time or uses randomness.
CLOCK = "fanfold.clock"
CLOCKED = ("fanfold", "functions")
CLOCK_MODULES = ("time", "random", "uuid", "secrets")
CLOCK_CALLS = (
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "datetime.date.today",
)

# Tests may import anything; node_modules is not ours.
UNRULED = ("tests", "node_modules")


def covers(pattern: str, name: str) -> bool:
    """Whether `name` is the module of `pattern` or below it; a `*` at the end matches any rest."""
    if pattern.endswith("*"):
        return name.startswith(pattern.removesuffix("*"))
    return name == pattern or name.startswith(f"{pattern}.")


def rule_for(module: str) -> Rule | None:
    """The rule with the longest name that covers the module."""
    fitting = [rule for rule in RULES if covers(rule.module, module)]
    return max(fitting, key=lambda rule: len(rule.module), default=None)


def imported(tree: ast.AST, module: str) -> Iterator[tuple[int, str, str]]:
    """All imports of a module: the line, the full name, and the local name.

    `from fanfold import ring` and `from fanfold.ring import START` both name `fanfold.ring`, the
    second with a rest that no rule considers. A plain `import a.b` has no local name.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, alias.asname or ""
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:  # Relative: as many steps up from this module as there are dots.
                steps = module.split(".")  # of a package itself: none
                package = ".".join(steps[: -node.level] or steps)
                base = f"{package}.{base}" if base else package
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}", alias.asname or alias.name


def dotted(node: ast.expr) -> str | None:
    """The name that an expression such as `datetime.datetime.now` spells."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return None


def clock_readings(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """All uses of CLOCK_CALLS, by whatever local name."""
    names = {called: full for _, full, called in imported(tree, module) if called}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (spelled := dotted(node)):
            first, _, rest = spelled.partition(".")
            full = f"{names.get(first, first)}.{rest}"
            if full in CLOCK_CALLS:
                yield node.lineno, full


def violations(source: str, module: str) -> list[str]:
    """A line for each broken rule, with the place and the reason."""
    rule = rule_for(module)
    if rule is None:
        return [f"{module}: no rule says what it may import; add one to RULES"]
    tree = ast.parse(source)
    found = []
    clocked = module != CLOCK and any(covers(package, module) for package in CLOCKED)
    for line, name, _ in imported(tree, module):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names:
            if clocked and top in CLOCK_MODULES:
                found.append(f"{module}:{line} imports {top}: only {CLOCK} does")
        elif not any(covers(allowed, name) for allowed in rule.may_import):
            found.append(f"{module}:{line} imports {name}: {rule.because}")
    if clocked:
        for line, name in clock_readings(tree, module):
            found.append(f"{module}:{line} reads {name}: only {CLOCK} does")
    return found


@cache
def modules() -> dict[str, Path]:
    """The files of all modules that need a rule, by name of the module."""
    packages = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith((".", "cdk.out")) and path.name not in UNRULED
    ]
    found = {}
    for path in [*ROOT.glob("*.py"), *(file for top in packages for file in top.rglob("*.py"))]:
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def test_all_imports_keep_the_rules() -> None:
    assert {"app", "fanfold.follows.ring", "functions.api", "infra.stack"} <= modules().keys()
    found = [
        violation
        for name, path in modules().items()
        for violation in violations(path.read_text(), name)
    ]
    assert not found, "\n".join(found)


def rooms() -> dict[str, set[str]]:
    """Which folders of fanfold/ the modules of each import, by folder; `fanfold` is the ground."""
    found: dict[str, set[str]] = {}
    for name, path in modules().items():
        if covers("fanfold", name) and name != "fanfold":
            room = _room(name)
            for _, used, _ in imported(ast.parse(path.read_text()), name):
                if covers("fanfold", used) and _room(used) != room:
                    found.setdefault(room, set()).add(_room(used))
    return found


def _room(module: str) -> str:
    room = ".".join(module.split(".")[:2])
    return "fanfold" if room in GROUND else room


def test_no_folder_of_the_engine_depends_on_one_that_depends_on_it() -> None:
    uses = rooms()
    assert {"fanfold.timeline", "fanfold.aws", "fanfold"} <= uses["fanfold.channels"]
    order = graphlib.TopologicalSorter(uses)
    order.prepare()  # raises `CycleError`, with the folders of the cycle


def test_rules_are_about_existing_modules_and_allow_no_others() -> None:
    ours = {name.partition(".")[0] for name in modules()}
    named = {name for rule in RULES for name in rule.may_import if name.partition(".")[0] in ours}
    assert {rule.module for rule in RULES} | named <= set(modules())


BROKEN = (
    # Another folder, a library, or what a pure module does not know.
    ("fanfold.fanout.plan", "import functions.plan"),
    ("fanfold.fanout.plan", "from aws_cdk import Stack"),
    ("fanfold.fanout.worker_steps", "from fanfold.aws.queues import WorkQueue"),
    ("fanfold.clock", "from fanfold import times"),
    ("functions.plan", "from functions import deliver"),
    # A prefix of a name is another name.
    ("infra.tables", "import fanfold.names_and_more"),
    # Any form of import, anywhere in the module.
    ("fanfold.fanout.plan", "def late():\n    import boto3"),
    ("functions.plan", "from . import deliver"),
    ("functions.plan", "from .deliver import handler"),
    ("fanfold.fanout.plan", "from ..infra import stack"),
    # Only the clock reads the clock.
    *(("fanfold.fanout.plan", f"import {name}") for name in CLOCK_MODULES),
    ("functions.plan", "from uuid import x"),
    ("fanfold.times", "import time as t"),
    ("fanfold.times", "from datetime import datetime as dt, UTC\ndt.now(UTC)"),
    ("fanfold.times", "import datetime\ndatetime.datetime.utcnow()"),
    ("fanfold.times", "from datetime import date\ndate.today()"),
    ("functions.api", "from datetime import datetime\nnow = datetime.now"),
    # A package without a rule.
    ("helpers.misc", "import json"),
)
KEPT = (
    ("fanfold.fanout.plan", "import json, os.path\nfrom collections.abc import Mapping"),
    ("fanfold.fanout.plan", "from fanfold import clock\nclock.now_ms()\nself.time.now()"),
    ("fanfold.timeline.posts", "from mypy_boto3_dynamodb import DynamoDBClient"),
    ("fanfold.fanout.worker_steps", "from fanfold.follows import ring"),
    ("fanfold.clock", "import time\nimport random\nimport uuid\nimport secrets"),
    ("fanfold.times", "from datetime import UTC, datetime\ndatetime.fromtimestamp(0, UTC)"),
    ("fanfold_cli.demo", "import time\nimport random\nfrom fanfold.fanout import plan"),
)


def test_the_checker_finds_a_broken_rule_and_accepts_what_is_allowed() -> None:
    for module, source in BROKEN:
        assert len(violations(source, module)) == 1, (module, source)
    for module, source in KEPT:
        assert violations(source, module) == []


def unsafe_children(tree: ast.AST) -> Iterator[int]:
    """Lines with a Python child that first looks for modules where its parent was started."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple):
            words = {
                dotted(each) if isinstance(each, ast.Attribute) else getattr(each, "value", None)
                for each in node.elts
            }
            if "sys.executable" in words and {"-m", "-c"} & words and not {"-P", "-I"} & words:
                yield node.lineno


def test_no_child_runs_files_of_the_directory_where_its_parent_was_started() -> None:
    for arguments in ('"-m", "x"', '"-c", code', '"-B", "-m", "x", *more'):
        assert list(unsafe_children(ast.parse(f"[sys.executable, {arguments}]"))) == [1]
        assert list(unsafe_children(ast.parse(f'[sys.executable, "-P", {arguments}]'))) == []
    found = [
        f"{path.relative_to(ROOT)}:{line} starts Python without -P"
        for path in modules().values()
        if "sys.executable" in (source := path.read_text())
        for line in unsafe_children(ast.parse(source))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize("part", BOUNDS)
def test_no_part_of_the_house_outgrows_its_bound(part: str) -> None:
    folders, bound = BOUNDS[part]
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lines = sum(len(path.read_text().splitlines()) for path in sources)
    assert lines <= bound, f"{part} has {lines:,} lines: take out what it can do without"
    assert lines > bound * 0.99, (
        f"{part} has {lines:,} lines: lower its bound, and keep what is won"
    )


def test_no_folder_holds_more_than_fourteen_modules_side_by_side() -> None:
    held = Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in (*modules().values(), *(ROOT / "tests").rglob("*.py"))
        if path.stem not in ("__init__", "__main__")
    )
    crowded = {folder: count for folder, count in held.items() if count > MOST_SIDE_BY_SIDE}
    assert not crowded, "sort them"


def test_the_top_level_has_no_other_folders() -> None:
    listing = ["git", "ls-tree", "-d", "--name-only", "HEAD"]
    found = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert {folder for folder in found.split() if not folder.startswith(".")} == FOLDERS

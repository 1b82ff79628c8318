"""The list of commands: its panels, and what is imported for it and for each command."""

import os
import subprocess
import sys

from typer.testing import CliRunner

from fanfold_cli.app import ENTRIES, START, app

# Prints the modules that a command line has imported when it ends.
SCRIPT = """
import sys
from fanfold_cli.main import main
sys.argv = ["fanfold", *sys.argv[1:]]
try:
    main()
except SystemExit:
    pass
sys.stderr.write("\\n".join(sys.modules))
"""
# Loads commands as the command line does when each is called, up to its first line.
LOAD = """
import sys
from fanfold_cli.app import ENTRIES
for entry in ENTRIES.values():
    entry.load()
sys.stderr.write("\\n".join(sys.modules))
"""


def run(script: str, *words: str, **asked: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", script, *words],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | asked,
    )


def imported(script: str, *words: str) -> set[str]:
    return set(run(script, *words).stderr.split())


def completed(words: str) -> list[str]:
    """What a shell offers after these words."""
    asked = {"_FANFOLD_COMPLETE": "complete_bash", "COMP_WORDS": words}
    return run(SCRIPT, **asked, COMP_CWORD=str(words.count(" "))).stdout.split()


def commands_in(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("fanfold_cli.commands.")}


def shown(*words: str) -> str:
    return CliRunner().invoke(app, list(words)).output


def test_a_command_line_imports_only_the_command_that_it_calls() -> None:
    version, help_ = imported(SCRIPT, "--version"), imported(SCRIPT, "--help")
    assert not {"typer", "rich", "pydantic", "botocore", "boto3", "fanfold_cli.app"} & version
    assert "fanfold_cli.app" in help_
    assert not commands_in(help_)
    assert "fanfold_cli.run.demo" not in help_
    assert "boto3" not in help_
    assert commands_in(imported(SCRIPT, "pause", "--help")) == {"fanfold_cli.commands.pause"}


def test_ctrl_c_while_the_commands_are_imported_prints_no_traceback() -> None:
    stops = "class Stops:\n __path__ = ()\n def __getattr__(*_): raise KeyboardInterrupt\n"
    script = f"{stops}import sys\nsys.modules['fanfold_cli.app'] = Stops()\n{SCRIPT}"
    ran = run(script.replace("SystemExit:\n    pass", "SystemExit as end:\n    print(end.code)"))
    assert (ran.stdout, "Traceback" in ran.stderr) == ("130\n", False)


def test_no_command_waits_for_a_library_that_it_may_not_need() -> None:
    modules = imported(LOAD)
    assert modules >= {
        f"fanfold_cli.{entry.package}.{entry.module or name}" for name, entry in ENTRIES.items()
    }
    # `rich` draws, when there is something to draw; the others are of the app and the engine.
    assert not {"rich", "pydantic", "aws_cdk", "jsii", "ministack", "numpy"} & modules


def test_a_summary_is_the_beginning_of_the_help_of_its_command() -> None:
    for entry in ENTRIES.values():
        assert " ".join((entry.load().help or "").split()).startswith(entry.summary)


def test_every_command_has_a_short_option_for_its_help() -> None:
    for command in ([], ["seed"], ["fanout"], ["fanout", "list"]):
        assert shown(*command, "-h") == shown(*command, "--help")
        assert "Usage:" in shown(*command, "-h")


def test_help_lists_commands_for_newcomers_first() -> None:
    text = shown("--help")
    panels = [text.index(f" {panel} ─") for panel in ("Start", "Use", "Operate", "Grow")]
    assert panels == sorted(panels)
    assert next(iter(ENTRIES.values())).panel == START
    assert text.index("doctor") < text.index("pause")


def test_a_shell_completes_commands_and_the_values_of_their_options() -> None:
    assert completed("fanfold ") == list(ENTRIES)
    assert completed("fanfold dlq list --queue ") == ["publish", "express", "bulk", "relation"]

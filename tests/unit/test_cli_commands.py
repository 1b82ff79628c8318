"""The list of commands: its panels, and what is imported for it and for each command."""

import os
import subprocess
import sys

import pytest
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


def imported(*words: str) -> set[str]:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, *words], check=True, capture_output=True, text=True
    )
    return set(ran.stderr.split())


def completed(words: str) -> list[str]:
    """What a shell offers after these words."""
    asked = {
        "_FANFOLD_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    ran = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        check=True,
        stdout=subprocess.PIPE,
        env=os.environ | asked,
    )
    return ran.stdout.decode().split()


def commands_in(modules: set[str]) -> set[str]:
    return {name for name in modules if name.startswith("fanfold_cli.commands.")}


def shown(*words: str) -> str:
    return CliRunner().invoke(app, list(words)).output


def test_the_version_is_printed_without_the_command_line() -> None:
    modules = imported("--version")
    assert not {"typer", "rich", "pydantic", "botocore", "boto3", "fanfold_cli.app"} & modules


def test_the_list_of_commands_imports_none_of_them() -> None:
    modules = imported("--help")
    assert "fanfold_cli.app" in modules
    assert not commands_in(modules)
    assert "boto3" not in modules


def test_a_command_imports_no_other_command() -> None:
    assert commands_in(imported("pause", "--help")) == {"fanfold_cli.commands.pause"}


# Loads commands as the command line does when each is called, up to its first line.
LOAD = """
import sys
from fanfold_cli.app import ENTRIES
for entry in ENTRIES.values():
    entry.load()
sys.stderr.write("\\n".join(sys.modules))
"""


def test_no_command_waits_for_a_library_that_it_may_not_need() -> None:
    ran = subprocess.run([sys.executable, "-P", "-c", LOAD], check=True, capture_output=True)
    modules = set(ran.stderr.decode().split())
    assert commands_in(modules) >= {
        f"fanfold_cli.commands.{entry.module or name}" for name, entry in ENTRIES.items()
    }
    # `rich` draws, when there is something to draw; the others are of the app and the engine.
    assert not {"rich", "pydantic", "aws_cdk", "jsii", "ministack", "numpy"} & modules


@pytest.mark.parametrize("entry", ENTRIES.values(), ids=lambda entry: entry.name)
def test_a_summary_is_the_beginning_of_the_help_of_its_command(entry) -> None:
    assert " ".join((entry.load().help or "").split()).startswith(entry.summary)


def test_what_a_newcomer_needs_is_listed_first_and_the_kill_switch_is_not() -> None:
    text = shown("--help")
    panels = [text.index(f" {panel} ─") for panel in ("Start", "Use", "Operate", "Grow")]
    assert panels == sorted(panels)
    assert next(iter(ENTRIES.values())).panel == START
    assert text.index("doctor") < text.index("pause")


@pytest.mark.parametrize("command", [(), ("seed",), ("fanout",), ("fanout", "list")])
def test_every_command_has_a_short_option_for_its_help(command) -> None:
    assert shown(*command, "-h") == shown(*command, "--help")
    assert "Usage:" in shown(*command, "-h")


def test_a_shell_completes_commands_and_the_values_of_their_options() -> None:
    assert completed("fanfold ") == list(ENTRIES)
    assert completed("fanfold dlq list --queue ") == ["publish", "express", "bulk", "relation"]

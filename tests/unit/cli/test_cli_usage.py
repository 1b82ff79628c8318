"""Help and refusals of options are written for people, and a wrong value exits with 2."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fanfold_cli.app import app

VOICES = ("No such", "Missing", "unexpected", "requires an argument", "does not take")


def refused(*words: str) -> str:
    """What is said about words that cannot be meant, on one line and without its frame."""
    ran = CliRunner().invoke(app, list(words))
    assert ran.exit_code == 2
    return " ".join(ran.stderr.replace("│", " ").split())


def helped(*words: str) -> str:
    shown = CliRunner().invoke(app, [*words, "--help"]).stdout
    return " ".join(shown.replace("│", " ").split())


REFUSED = {
    "local up --port x": "--port must be a whole number from 1024 to 65535, not ",
    "local up --lifetime 0": "--lifetime must be 0.001 or more, not 0.",
    "cost --followers x": "--followers must be a whole number, not 'x'.",
    "fanout watch a --timeout x": "--timeout must be a number, 0 or more, not",
    "dlq list --queue x": "--queue: 'x' is not one of 'publish', 'express'",
    "seed --edges /nowhere": "--edges: file '/nowhere' does not exist.",
    "nope": "There is no command 'nope'.",
    "local upp": "There is no command 'upp'. Did you mean 'up'?",
    "--nope": "There is no option --nope.",
    "seed --edge x": "There is no option --edge; there is --edges.",
    "seed": "--edges is missing: give it too.",
    "fanout show": "REF_ID is missing: give it too.",
    "fanout show a b": "Too many words: leave out b.",
    "local up --port": "--port needs a value after it.",
    "local up --fresh=1": "--fresh takes no value: leave it out.",
}


@pytest.mark.parametrize(("words", "sentence"), REFUSED.items())
def test_a_wrong_value_is_refused_in_one_plain_sentence(words, sentence) -> None:
    said = refused(*words.split())
    assert sentence in said
    for voice in ("Input should", "Value error", "Invalid value", "valid integer", *VOICES):
        assert voice not in said


def test_a_value_that_a_command_refuses_itself_exits_with_2_as_well() -> None:
    for words in (
        ("token", "--user", "a b"),
        ("fanout", "show", "a b"),
        ("doctor", "--publisher", "a b"),
        ("cost", "--followers", "0"),
        ("preflight", "-c", "stage"),
    ):
        raised = CliRunner().invoke(app, list(words)).exception
        assert getattr(raised, "exit_code", None) == 2


def test_the_exit_code_is_that_of_the_process() -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-m", "fanfold_cli", "cost", "--backfill", "1000"],
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("--backfill must be from 0 to ")


DEFAULTS = {
    "seed": "Name of a stack on AWS. [default: the local engine]",
    "local down": "holds one engine. [default: .fanfold of the checkout]",
    "local up": "[default: a free one]",
    "dlq list": "[default: all queues]",
    "cost": "can be repeated. [default: four sizes]",
}


def test_help_says_what_an_option_is_without_its_value_and_asks_for_none_of_a_flag() -> None:
    for command, default in DEFAULTS.items():
        squeezed = "".join(helped(*command.split()).split())
        assert "<bool>" not in squeezed
        for word in default.split():
            assert word in squeezed
    for command in ("", "local", "dlq drop"):
        assert "<bool>" not in helped(*command.split())

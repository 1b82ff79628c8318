"""The options and arguments that several commands share."""

from typing import Annotated

import typer

from fanfold.errors import BadInput
from fanfold.ids import check_id
from fanfold_cli.console import ExpectedError
from fanfold_cli.local.home import HOME_VARIABLE

HomeOption = Annotated[
    # Text, because an empty path would be the directory that one is in.
    str | None,
    typer.Option(
        "--home",
        envvar=HOME_VARIABLE,
        metavar="DIRECTORY",
        help="Directory of this engine; several run side by side in several directories. "
        "[default: .fanfold of the checkout]",
    ),
]
StackOption = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a stack on AWS. [default: the local engine]"),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; what fails is told on stderr.")
]


def checked_id(given: str) -> str:
    """An id that the user typed; raises `ExpectedError`, which shows what that was."""
    try:
        return check_id(given, field=given)
    except BadInput as error:
        raise ExpectedError(error.sentence) from None

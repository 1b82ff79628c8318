"""The options that several commands share."""

from typing import Annotated

import typer

from fanfold_cli.home import HOME_VARIABLE

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
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

"""The options and arguments that several commands share."""

from typing import Annotated

import typer

from fanfold.errors import BadInput
from fanfold.ids import check_id
from fanfold_cli.local.home import HOME_VARIABLE
from fanfold_cli.terminal import WrongValue


def checked_id(given: str) -> str:
    """Return an id that the user typed; raises `WrongValue` that quotes an invalid one."""
    try:
        return check_id(given, field=given)
    except BadInput as error:
        raise WrongValue(error.sentence) from None


# Help texts are markup, so a literal bracket needs a backslash.
HomeOption = Annotated[
    # A string, because `Path("")` would be the working directory.
    str | None,
    typer.Option(
        "--home",
        envvar=HOME_VARIABLE,
        metavar="DIRECTORY",
        help="Directory of a local engine; each directory holds one engine. "
        r"\[default: .fanfold of the checkout]",
    ),
]
StackOption = Annotated[
    str | None,
    typer.Option("--stack", help=r"Name of a stack on AWS. \[default: the local engine]"),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object; errors go to stderr.")
]
ContextOption = Annotated[
    list[str] | None,
    typer.Option(
        "-c", "--context", metavar="NAME=VALUE", help="As for `cdk deploy`; can be repeated."
    ),
]
BrowserOption = Annotated[
    bool, typer.Option("--browser/--no-browser", help="Open the page, or only print its address.")
]
PortOption = Annotated[
    int,
    typer.Option(
        min=0,
        max=65535,
        show_default=False,
        help=r"Loopback port of the page. \[default: a free one]",
    ),
]
RefId = Annotated[
    str, typer.Argument(metavar="REF_ID", help="The ref_id of the post.", callback=checked_id)
]
Publisher = Annotated[
    str, typer.Argument(metavar="PUBLISHER", help="Id of the publisher.", callback=checked_id)
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

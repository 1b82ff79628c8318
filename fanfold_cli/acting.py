"""Acting as a user of the stack: options that such commands share, and their client."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from fanfold import clock, contract, json_text
from fanfold.errors import BadInput
from fanfold.ids import is_id
from fanfold_cli.console import WrongValue
from fanfold_cli.stack import Deployment
from fanfold_cli.usage import WrongUsage
from fanfold_client import Fanfold

# Cognito's access tokens last an hour.
TOKEN_SECONDS = 40 * 60.0

UserOption = Annotated[
    str,
    typer.Option(
        "--user", metavar="NAME", help="Who does it: a user of the stack's pool, created if new."
    ),
]
PublisherId = Annotated[
    str,
    typer.Argument(
        metavar="PUBLISHER_ID",
        help="Id of a user. The local engine knows users by name, a stage of AWS mostly by what "
        "`fanfold token --json` calls their id.",
    ),
]
RefId = Annotated[str, typer.Argument(metavar="REF_ID", help="The ref_id of the post.")]
TextArgument = Annotated[
    str | None, typer.Argument(metavar="TEXT", help='The post, in short: its body is {"text": …}.')
]
BodyOption = Annotated[
    str | None,
    typer.Option(
        "--body", metavar="JSON", help="The body of the post, a JSON object; - reads it from stdin."
    ),
]


@dataclass
class Token:
    """The access token of a user, renewed before it ends."""

    deployment: Deployment
    user: str
    made_at: float = 0.0
    token: str = field(default="", repr=False)

    def __call__(self) -> str:
        if not self.token or clock.monotonic() - self.made_at > TOKEN_SECONDS:
            self.made_at = clock.monotonic()
            self.token = self.deployment.token(self.user)
        return self.token


def check_user(user: str) -> None:
    """Raise `WrongValue` if nobody can be named so."""
    if not is_id(user):
        raise WrongValue(
            f"--user must be 1 to {contract.MAX_ID_CHARS} letters, digits and _ . : | @ + = -, not "
            f"{user!r}."
        )


def client_of(deployment: Deployment, user: str) -> Fanfold:
    """The API as this user sees it. Answers keep their numbers digit for digit: `json_text`."""
    token = Token(deployment, user)
    token()  # outside of any request, so that its own error is told
    return Fanfold(deployment.api_url, token, loads=_read)


def body_of(text: str | None, body: str | None, read_stdin: Callable[[], str]) -> dict[str, Any]:
    """The body that was typed, by one of the two ways; raises `WrongUsage` and `WrongValue`."""
    if (text is None) == (body is None):
        raise WrongUsage("Say what to post: a TEXT, or --body with a JSON object.")
    if text is not None:
        return {"text": text}
    raw = read_stdin() if body == "-" else str(body)
    try:
        return json_text.read(raw, what="--body", hint=', such as \'{"text": "Hello"}\'')
    except BadInput as error:
        raise WrongValue(error.sentence) from None


def _read(text: str) -> Any:
    try:
        return json_text.read(text, what="The answer")
    except BadInput as error:
        raise ValueError(error.sentence) from error

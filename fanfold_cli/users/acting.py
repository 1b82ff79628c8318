"""Acting as a user of the stack: shared options, and the client."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from fanfold import clock, contract, json_text
from fanfold.errors import BadInput
from fanfold.ids import is_id
from fanfold_cli.options import checked_id
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import WrongValue, say
from fanfold_cli.usage import WrongUsage
from fanfold_client import Failed, Fanfold, checks

# Cognito's access tokens last an hour.
TOKEN_SECONDS = 40 * 60.0
# What Ctrl-C says during a request that can be repeated.
MAY_BE_DONE = "the change may have been made; run it again."


def checked_user(user: str, option: str = "--user") -> str:
    """Return a user name; raises `WrongValue` if it cannot be one."""
    if not is_id(user):
        raise WrongValue(
            f"{option} must be 1 to {contract.MAX_ID_CHARS} letters, digits and _ . : | @ + = -, "
            f"not {user!r}."
        )
    return user


UserOption = Annotated[
    str,
    typer.Option(
        "--user",
        metavar="NAME",
        help="Act as this user of the stack's pool, created if new.",
        callback=lambda user: checked_user(user),
    ),
]
_OF_USERS = (
    "on the local engine the user's name, on AWS mostly the `id` that `fanfold token --json` "
    "prints."
)
PublisherId = Annotated[
    str,
    typer.Argument(
        metavar="PUBLISHER_ID", help=f"Id of a publisher: {_OF_USERS}", callback=checked_id
    ),
]
UserId = Annotated[
    str,
    typer.Argument(metavar="USER_ID", help=f"Id of another user: {_OF_USERS}", callback=checked_id),
]
TextArgument = Annotated[
    str | None, typer.Argument(metavar="TEXT", help='Text of the post, sent as {"text": …}.')
]
BodyOption = Annotated[
    str | None,
    typer.Option("--body", metavar="JSON", help="Body of the post, a JSON object; - reads stdin."),
]


@dataclass
class Token:
    """The access token of a user, renewed before it expires or after it was refused."""

    deployment: Deployment
    user: str
    made_at: float = 0.0
    token: str = field(default="", repr=False)

    def __call__(self, refused: str | None = None) -> str:
        is_old = clock.monotonic() - self.made_at > TOKEN_SECONDS
        if is_old or self.token in ("", refused):
            self.made_at = clock.monotonic()
            self.token = self.deployment.token(self.user)
        return self.token


@dataclass
class _Retries:
    """Says once that a request is retried; raises `ExpectedError` if the engine has ended."""

    deployment: Deployment
    is_said: bool = False

    def __call__(self, failed: Failed) -> None:
        self.deployment.check_running()
        if not self.is_said:
            why = "The service asks to wait" if failed.retry_after else "No answer yet"
            say(f"{why}; trying again.")
        self.is_said = True


def client_of(deployment: Deployment, user: str, *, seconds: float = Fanfold.seconds) -> Fanfold:
    """A client of the API for this user. Numbers in answers keep all digits: `json_text`."""
    token = Token(deployment, user)
    token()  # before any request, so that its own error is shown
    return Fanfold(deployment.api_url, token, seconds, loads=_read, on_retry=_Retries(deployment))


def body_of(text: str | None, body: str | None, read_stdin: Callable[[], str]) -> dict[str, Any]:
    """The body, given in one of the two ways; raises `WrongUsage` and `WrongValue`."""
    if (text is None) == (body is None):
        raise WrongUsage("Say what to post, in one way: a TEXT, or --body with a JSON object.")
    if text is not None:
        if not text.strip():
            raise WrongValue("The post has no text: say something, or give --body '{}'.")
        _check_text(text)
        return {"text": text}
    raw = _read_all(read_stdin) if body == "-" else str(body)
    _check_text(raw)
    try:
        return json_text.read(raw, what="--body", hint='; give one such as {"text": "Hello"}')
    except BadInput as error:
        raise WrongValue(error.sentence) from None


def checked_key(key: str | None) -> str:
    """The given Idempotency-Key, or a new one; raises `WrongValue`."""
    try:
        return checks.checked_key(clock.new_id() if key is None else key)
    except ValueError:
        raise WrongValue(
            f"--key must have 1 to {contract.MAX_IDEMPOTENCY_KEY_CHARS} characters of printable "
            f"ASCII, not {key!a}."
        ) from None


def _read_all(read: Callable[[], str]) -> str:
    try:
        return read()
    except UnicodeDecodeError:
        raise WrongValue("stdin is not text in UTF-8; nothing was sent.") from None
    except (AttributeError, OSError, ValueError):  # stdin is missing or closed
        raise WrongValue("--body - reads stdin, and it is closed; nothing was sent.") from None


def _check_text(text: str) -> None:
    try:
        checks.encoded("The post", text)
    except ValueError:
        raise WrongValue("The post is not text in UTF-8; nothing was sent.") from None


def _read(text: str) -> Any:
    try:
        return json_text.read(text, what="The answer")
    except BadInput as error:
        raise ValueError(error.sentence) from error

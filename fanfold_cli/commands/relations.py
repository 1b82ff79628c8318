"""The commands of users about each other: whose posts a timeline shows, and who may follow."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any

import typer

from fanfold.contract import REQUESTED
from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    failing_with,
    interrupted_with,
    print_json,
    print_result,
    say,
    text_table,
)
from fanfold_cli.users.acting import MAY_BE_DONE, PublisherId, UserId, UserOption, client_of
from fanfold_client import Failed, Fanfold

# About as many as a screen shows.
LIMIT = 20
# True too of a publisher who blocks the user.
ASKED = "{user} has asked to follow {publisher_id}: the request waits."


class Switch(StrEnum):
    ON = "on"
    OFF = "off"


def _command(
    summary: str,
    call: Callable[[Fanfold, str], Mapping[str, Any] | None],
    state: Mapping[str, bool],
    sentence: str,
    argument: Any = PublisherId,
) -> Callable[..., None]:
    """A command with this `summary`, which leads to this `state`; it says the `sentence`."""
    name = "publisher_id" if argument is PublisherId else "user_id"

    def command(
        other: PublisherId,
        user: UserOption,
        stack: StackOption = None,
        home: HomeOption = None,
        as_json: JsonOption = False,
    ) -> None:
        answer = _changed(lambda api: call(api, other), user, stack, home)
        done: dict[str, Any] = {"user": user, name: other, **answer, **state}
        if is_asked := answer.get("state") == REQUESTED:
            done["follows"] = False
        if as_json:
            print_json(done)
        else:
            say((ASKED if is_asked else sentence).format_map(done))

    command.__doc__ = summary
    command.__annotations__["other"] = argument
    return command


def _changed(
    call: Callable[[Fanfold], Mapping[str, Any] | None],
    user: str,
    stack: str | None,
    home: str | None,
) -> Mapping[str, Any]:
    api = client_of(Deployment.to_change(stack, home), user)
    failed = failing_with("The change is not confirmed", Failed)
    with interrupted_with(MAY_BE_DONE), failed, waiting_for("the answer"):
        return call(api) or {}


def _read(call: Callable[[Fanfold], Any], user: str, stack: str | None, home: str | None) -> Any:
    api = client_of(Deployment.to_change(stack, home), user)
    with failing_with("It cannot be read", Failed), waiting_for("the answer"):
        return call(api)


follow = _command(
    "Follow a publisher: get the newest posts now, and every new one; or ask a private publisher.",
    Fanfold.follow,
    {"follows": True},
    "{user} follows {publisher_id} since {followed_at}.",
)
unfollow = _command(
    "Unfollow a publisher: hide their posts, and get no new ones.",
    Fanfold.unfollow,
    {"follows": False},
    "{user} does not follow {publisher_id}.",
)
mute = _command(
    "Mute a publisher: hide their posts, and keep the follow.",
    Fanfold.mute,
    {"muted": True},
    "The timeline of {user} hides the posts of {publisher_id}.",
)
unmute = _command(
    "Unmute a publisher: show their posts again.",
    Fanfold.unmute,
    {"muted": False},
    "The timeline of {user} shows the posts of {publisher_id} again, if followed.",
)
approve = _command(
    "Approve a request to follow.",
    Fanfold.approve,
    {"follows": True},
    "{user_id} follows {user} since {followed_at}.",
    UserId,
)
remove = _command(
    "Remove a follower, or deny a request.",
    Fanfold.remove,
    {"follows": False},
    "{user_id} does not follow {user}.",
    UserId,
)
block = _command(
    "Block a user: neither can follow the other.",
    Fanfold.block,
    {"blocked": True},
    "{user} blocks {user_id}; neither follows the other.",
    UserId,
)
unblock = _command(
    "Unblock a user: both may follow again.",
    Fanfold.unblock,
    {"blocked": False},
    "{user} does not block {user_id}; what a block has ended stays so.",
    UserId,
)


def private(
    user: UserOption,
    switch: Annotated[
        Switch | None, typer.Argument(metavar="on|off", help="Go private, or public.")
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Go private or public, or show which: a private publisher approves each new follower.

    Going public approves the requests that wait.
    """
    if switch:
        done = _changed(lambda api: api.set_private(switch == Switch.ON), user, stack, home)
    else:
        done = _read(Fanfold.me, user, stack, home)
    sentence = f"{user} is public: everybody may follow."
    if done["private"]:
        since = f", from {done['enforced_from']} on" if done["enforced_from"] else ""
        sentence = f"{user} is private: who follows must be approved{since}."
    if as_json:
        print_json({"user": user, **done})
    else:
        print_result(sentence)


def requests(
    user: UserOption,
    limit: Annotated[int, typer.Option(min=1, help="Number of requests to show.")] = LIMIT,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """List who asks to follow a user, newest first."""
    found = _read(lambda api: list(islice(api.requests(), limit + 1)), user, stack, home)
    shown, more = found[:limit], len(found) > limit
    if as_json:
        print_json({"requests": shown, "more": more})
    elif not shown:
        say(f"Nobody asks to follow {user}.")
    else:
        rows = [(each["requested_at"], each["user_id"]) for each in shown]
        print_result(text_table(("requested", "user_id"), rows, folded=("user_id",)))
    if more:
        say("There are more; --limit shows them.")

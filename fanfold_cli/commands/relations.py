"""`fanfold follow`, `unfollow`, `mute` and `unmute`: whose posts a user's timeline shows."""

from collections.abc import Callable, Mapping
from typing import Any

from fanfold_cli.options import HomeOption, JsonOption, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import failing_with, interrupted_with, print_json, say
from fanfold_cli.users.acting import MAY_BE_DONE, PublisherId, UserOption, client_of
from fanfold_client import Failed, Fanfold


def _command(
    summary: str,
    call: Callable[[Fanfold, str], Mapping[str, Any] | None],
    state: Mapping[str, bool],
    sentence: str,
) -> Callable[..., None]:
    """A command with this `summary`, which leads to this `state`; it says the `sentence`."""

    def command(
        publisher: PublisherId,
        user: UserOption,
        stack: StackOption = None,
        home: HomeOption = None,
        as_json: JsonOption = False,
    ) -> None:
        api = client_of(Deployment.to_change(stack, home), user)
        failed = failing_with("The change is not confirmed", Failed)
        with interrupted_with(MAY_BE_DONE), failed, waiting_for("the answer"):
            answer = call(api, publisher) or {}
        done = {"user": user, "publisher_id": publisher, **answer, **state}
        if as_json:
            print_json(done)
        else:
            say(sentence.format_map(done))

    command.__doc__ = summary
    return command


follow = _command(
    "Follow a publisher: get the newest posts now, and every new one.",
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

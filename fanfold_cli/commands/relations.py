"""`fanfold follow`, `unfollow`, `mute` and `unmute`: whose posts a user's timeline shows."""

from collections.abc import Callable, Mapping
from typing import Any

from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import failing_with, interrupted_with, print_json, say
from fanfold_cli.users.acting import MAY_BE_DONE, PublisherId, UserOption, check_user, client_of
from fanfold_client import Failed, Fanfold


def follow(
    publisher: PublisherId,
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Follow a publisher: get the newest posts now, and every new one."""
    done = _called(lambda api: api.follow(publisher), publisher, user, stack, home)
    sentence = f"{user} follows {publisher} since {done.get('followed_at')}."
    _tell(done | {"follows": True}, sentence, as_json=as_json)


def unfollow(
    publisher: PublisherId,
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unfollow a publisher: hide their posts, and get no new ones."""
    done = _called(lambda api: api.unfollow(publisher), publisher, user, stack, home)
    _tell(done | {"follows": False}, f"{user} does not follow {publisher}.", as_json=as_json)


def mute(
    publisher: PublisherId,
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mute a publisher: hide their posts, and keep the follow."""
    done = _called(lambda api: api.mute(publisher), publisher, user, stack, home)
    sentence = f"The timeline of {user} hides the posts of {publisher}."
    _tell(done | {"muted": True}, sentence, as_json=as_json)


def unmute(
    publisher: PublisherId,
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Unmute a publisher: show their posts again."""
    done = _called(lambda api: api.unmute(publisher), publisher, user, stack, home)
    sentence = f"The timeline of {user} shows the posts of {publisher} again, if followed."
    _tell(done | {"muted": False}, sentence, as_json=as_json)


def _called(
    call: Callable[[Fanfold], Mapping[str, Any] | None],
    publisher: str,
    user: str,
    stack: str | None,
    home: str | None,
) -> dict[str, Any]:
    """The user, the publisher, and the answer."""
    check_user(user)
    checked_id(publisher)
    api = client_of(Deployment.to_change(stack, home), user)
    failed = failing_with("The change is not confirmed", Failed)
    with interrupted_with(MAY_BE_DONE), failed, waiting_for("the answer"):
        answer = call(api) or {}
    return {"user": user, "publisher_id": publisher, **answer}


def _tell(done: dict[str, Any], sentence: str, *, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        say(sentence)

"""`fanfold publish`, `edit` and `retract`: a user's posts."""

import shlex
import sys
from contextlib import suppress
from typing import Annotated, Any

import typer

from fanfold import answers
from fanfold.contract import MAX_IDEMPOTENCY_KEY_CHARS
from fanfold.fanout.row import CHANNEL, COMPLETE
from fanfold_cli.deliveries.watch import until_ended
from fanfold_cli.options import HomeOption, JsonOption, RefId, StackOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    counted,
    failing_with,
    interrupted_with,
    print_json,
    print_values,
    say,
)
from fanfold_cli.users.acting import (
    MAY_BE_DONE,
    BodyOption,
    TextArgument,
    UserOption,
    body_of,
    checked_key,
    client_of,
)
from fanfold_client import Failed, Fanfold


def publish(
    user: UserOption,
    text: TextArgument = None,
    body: BodyOption = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            help=f"Idempotency-Key, up to {MAX_IDEMPOTENCY_KEY_CHARS} characters; repeating a "
            r"publish with its key has no effect. \[default: a new one]",
        ),
    ] = None,
    published_at: Annotated[
        str | None,
        typer.Option(
            "--published-at", metavar="TIME", help=r"Time of the post, in RFC 3339. \[default: now]"
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Watch the delivery until it ends.")] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Publish a post as a user; with --wait, watch it reach the followers."""
    content, key = body_of(text, body, lambda: sys.stdin.read()), checked_key(key)
    api = client_of(Deployment.to_change(stack, home), user)
    known: dict[str, Any] = {"key": key}
    delivery: answers.Delivery | None = None
    with interrupted_with(lambda: _what_is_known(known)):
        known |= _publish(api, content, published_at, key)
        with suppress(Failed):  # it is published anyway
            known["publisher_id"] = api.post(known["ref_id"])["publisher_id"]
        if wait:
            unseen = f"The post is published as {known['ref_id']}, but its delivery cannot be seen"
            with failing_with(unseen, Failed):
                delivery = until_ended(lambda: api.delivery(known["ref_id"]), lambda told: told)
    if as_json:
        print_json(known | ({} if delivery is None else {"delivery": delivery}))
    else:
        print_values(known)
    if delivery is None:
        return
    if delivery["by"] == CHANNEL:
        readers = counted(delivery["delivered"], "follower reads", "followers read")
        reached = f"the channel that about {readers}"
    else:
        reached = counted(delivery["delivered"], "timeline")
    say(f"The delivery is {delivery['state']}: the post is in {reached}.")
    if delivery["state"] != COMPLETE:
        raise typer.Exit(1)


def edit(
    ref_id: RefId,
    user: UserOption,
    text: TextArgument = None,
    body: BodyOption = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Edit your post: replace its body."""
    content = body_of(text, body, lambda: sys.stdin.read())
    api = client_of(Deployment.to_change(stack, home), user)
    failed = failing_with("The post was not edited", Failed)
    with interrupted_with(MAY_BE_DONE), failed, waiting_for("the answer to the edit"):
        edited = api.edit(ref_id, content)
    if as_json:
        print_json(edited)
    else:
        print_values(dict(edited))
        say("Every read shows the edit within 5 seconds.")


def retract(
    ref_id: RefId,
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Retract your post: hide it from everybody and end its delivery."""
    api = client_of(Deployment.to_change(stack, home), user)
    failed = failing_with("The post was not retracted", Failed)
    with interrupted_with(MAY_BE_DONE), failed, waiting_for("the answer to the retraction"):
        api.retract(ref_id)
    if as_json:
        print_json({"ref_id": ref_id, "retracted": True})
    else:
        say(f"'{ref_id}' is retracted: no read shows it after 5 seconds.")


def _publish(
    api: Fanfold, content: dict[str, Any], published_at: str | None, key: str
) -> answers.Accepted:
    with waiting_for("the answer to the publish"):
        try:
            return api.publish(content, published_at=published_at, key=key)
        except Failed as failed:
            if failed.may_be_done:
                raise ExpectedError(
                    f"It is not known whether the post is published; {_again(key)}. {failed}"
                ) from failed
            raise ExpectedError(
                f"The post was not published, with --key {shlex.quote(key)}: {failed}"
            ) from failed
        except ExpectedError as ended:  # the local engine has ended after an attempt
            raise ExpectedError(f"{ended} The post may be published; {_again(key)}.") from ended


def _again(key: str) -> str:
    return f"run it again with --key {shlex.quote(key)}, which publishes it once"


def _what_is_known(known: dict[str, Any]) -> str:
    """What an interrupted publish says; an accepted one has its `ref_id` in `known`."""
    if "ref_id" not in known:
        return f"the post may be published; {_again(known['key'])}."
    ref_id, key = known["ref_id"], shlex.quote(known["key"])
    return (
        f"the post is published as {ref_id}, with --key {key}. The delivery goes on; "
        f"`fanfold fanout watch {ref_id}` shows it."
    )

"""`fanfold timeline`, `unread` and `token`: what a user reads, and the token for it."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import typer

from fanfold import clock, json_text
from fanfold.answers import TimelineEntry, TimelinePage
from fanfold.contract import MAX_LIMIT
from fanfold_cli.options import HomeOption, JsonOption, StackOption, checked_id
from fanfold_cli.progress import waiting_for
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    INTERRUPTED,
    ExpectedError,
    counted,
    escaped_json,
    failing_with,
    print_json,
    print_result,
    printable,
    say,
    text_table,
)
from fanfold_cli.users.acting import UserOption, client_of
from fanfold_cli.users.sign_in import sign_in
from fanfold_client import Entries, Failed

LIMIT = 20
POLL_SECONDS = 2.0
# Entries that --follow does not print twice; repetitions come soon if at all.
REMEMBERED = 10_000


def timeline(
    user: UserOption,
    follow: Annotated[
        bool, typer.Option("--follow", help="Print new entries as they come, until Ctrl-C.")
    ] = False,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_LIMIT, help="Number of entries to show.")
    ] = LIMIT,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="CURSOR", help="Show the page after this `next`."),
    ] = None,
    publisher: Annotated[
        str | None,
        typer.Option("--publisher", metavar="ID", help="Show this publisher's posts instead."),
    ] = None,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a user's timeline, newest first; with --follow, keep printing new entries."""
    if publisher is not None:
        checked_id(publisher)
    deployment = Deployment.to_change(stack, home)
    api = client_of(deployment, user)
    entries = api.timeline if publisher is None else api.feed(publisher)
    whose = f"The timeline of {user}" if publisher is None else f"The posts of {publisher}"
    with failing_with(f"{whose} cannot be read", Failed), waiting_for("the first page"):
        page = entries.page(limit=limit, before=before)
    if follow:
        try:
            _follow(deployment, entries, page, as_json=as_json)
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
    elif as_json:
        print_result(escaped_json(json_text.write(page)))
    else:
        _show(page, f"{whose}, newest first")


def unread(
    user: UserOption,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count a user's unread entries."""
    api = client_of(Deployment.to_change(stack, home), user)
    with failing_with("The entries cannot be counted", Failed), waiting_for("the count"):
        found = api.unread()
    if as_json:
        print_json(found)
    else:
        more = ", or more" if found["more"] else ""
        print_result(f"{counted(found['unread'], 'unread entry', 'unread entries')}{more}")


def token(
    user: UserOption,
    reset_password: Annotated[
        bool,
        typer.Option(
            "--reset-password",
            help="Also sign in a user that somebody else created on AWS; replaces the password.",
        ),
    ] = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print an access token for a user of the stack's own pool, and nothing else on stdout.

    A stage that keeps its data refuses.
    """
    deployment = Deployment.to_change(stack, home)
    signed = sign_in(deployment, user, reset_password=reset_password)
    is_by_sub = not deployment.is_local and deployment.run_time_settings().user_claim == "sub"
    known_as = signed.sub if is_by_sub else user
    if as_json:
        print_json(asdict(signed) | {"id": known_as})
        return
    print_result(signed.token)
    if known_as != user:
        say(f"On this stack, {user} is known as {known_as}: others follow this id.")


def _show(page: TimelinePage, title: str) -> None:
    if not page["entries"]:
        say("There is nothing here.")
    else:
        columns = ("published", "publisher", "ref_id", "post")
        rows = (map(printable, _cells(entry)) for entry in page["entries"])
        print_result(text_table(columns, rows, folded=("ref_id",), title=title))
    if page["next"] is not None:
        say(f"There is more below: --before {page['next']}")


def _cells(entry: TimelineEntry) -> tuple[str, ...]:
    return entry["published_at"][:19], entry["publisher_id"], entry["ref_id"], _words(entry)


def _words(entry: Mapping[str, Any]) -> str:
    """The post in one line: its text or title, or else its JSON."""
    body = entry.get("body") or {}
    text = next((body[name] for name in ("text", "title") if isinstance(body.get(name), str)), "")
    return " ".join((text or (json_text.write(body) if body else "")).split())


def _follow(deployment: Deployment, entries: Entries, page: TimelinePage, *, as_json: bool) -> None:
    """Print each new entry once, oldest first, until an error or Ctrl-C."""
    shown: dict[str, None] = {}
    _print_lines(page, shown, as_json=as_json)
    previous, is_lost = page["previous"], False
    while True:
        clock.sleep(POLL_SECONDS)
        try:
            for newer in entries.newer(previous, have=shown):
                _print_lines(newer, shown, as_json=as_json)
                previous, is_lost = newer["previous"], False
        except Failed as failed:
            if not failed.may_pass or deployment.has_ended():
                raise ExpectedError(f"Nothing more can be read: {failed}") from failed
            if not is_lost:
                say(f"There is no answer; trying again. {failed}")
            is_lost = True


def _print_lines(page: TimelinePage, shown: dict[str, None], *, as_json: bool) -> None:
    for entry in reversed(page["entries"]):
        shown[entry["ref_id"]] = None
        if as_json:
            print_result(escaped_json(json_text.write(entry)))
            continue
        words = (entry["published_at"], entry["publisher_id"], _words(entry))
        print_result("  ".join(map(printable, words)))
    while len(shown) > REMEMBERED:
        del shown[next(iter(shown))]

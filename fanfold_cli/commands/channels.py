"""`fanfold channels`: list, add or demote channels."""

import math

import typer

from fanfold import clock
from fanfold.aws.retries import STEP
from fanfold.channels.head import MARGIN_DAYS, MOST, Head, readable_until
from fanfold.channels.head_table import HeadTable
from fanfold.channels.known_head import HEAD_SECONDS
from fanfold.errors import TryLater
from fanfold.follows.follower_estimate import Estimate
from fanfold_cli.cost.channel import post_units
from fanfold_cli.options import HomeOption, JsonOption, Publisher, StackOption, YesOption
from fanfold_cli.progress import waiting_for
from fanfold_cli.publishers.channels import (
    ACTIVE,
    check_gives,
    content_of,
    draw,
    followers_of,
    pushed_to,
    state_of,
    sum_of,
    threshold_of,
    until_of,
)
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import (
    ExpectedError,
    ask,
    counted,
    dollars,
    failing_with,
    print_json,
    print_result,
    say,
)

app = typer.Typer(
    help=f"List, add or demote channels: shared timelines, each of one publisher; at most {MOST}.",
    no_args_is_help=True,
)


@app.command("list")
def list_(stack: StackOption = None, home: HomeOption = None, as_json: JsonOption = False) -> None:
    """List the channels, most followers first."""
    deployment = Deployment.choose(stack, home)
    with failing_with("The channels cannot be read"), waiting_for("the channels"):
        head = deployment.stores().heads.get()
    channels = sorted(
        head.channels.values(), key=lambda channel: (-channel.followers, channel.publisher_id)
    )
    if as_json:
        rows = [content_of(channel) for channel in channels]
        print_json({"channels": rows, "most": MOST, "threshold": threshold_of(deployment)})
        return
    if channels:
        draw(channels)
    print_result(f"{len(channels)} of {MOST}.")


@app.command()
def add(
    publisher: Publisher,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add a channel for a publisher, or reactivate a demoted one; asks first."""
    deployment = Deployment.to_change(stack, home)
    check_gives(deployment)
    with failing_with("The channel cannot be added; run it again", TryLater):
        heads = deployment.stores().heads
        head = heads.get()
        was = state_of(head, publisher)
        if was != ACTIVE:
            _check_room(head, publisher)
            found = followers_of(deployment, publisher)
            say(_meaning_of_add(head, publisher, found))
            if not found.followers:
                say(f"Nobody follows '{publisher}' yet; is the id right?")
            question = f"Put the posts of '{publisher}' into a channel?"
            ask(question, place=deployment.place, yes=yes)
            head = _add(heads, head, publisher, followers=found.followers)
    if as_json:
        _print_changed(head, publisher, was)
    elif was == ACTIVE:
        print_result(f"'{publisher}' has a channel already: {sum_of(head)}.")
    else:
        print_result(f"New posts of '{publisher}' go into its channel: {sum_of(head)}.")


@app.command()
def demote(
    publisher: Publisher,
    yes: YesOption = False,
    stack: StackOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> None:
    """Demote a channel: deliver the publisher's new posts to each follower again; asks first.

    Posts in the channel stay readable until they expire.
    """
    deployment = Deployment.to_change(stack, home)
    with failing_with("The channel cannot be demoted; run it again", TryLater):
        heads = deployment.stores().heads
        head = heads.get()
        was = state_of(head, publisher)
        if was == ACTIVE:
            days = deployment.run_time_settings().entry_days
            say(_meaning_of_demote(deployment, publisher, days))
            question = f"Deliver the posts of '{publisher}' to each follower again?"
            ask(question, place=deployment.place, yes=yes)
            head = _demote(heads, publisher, until=readable_until(clock.now_ms(), days))
    channel = head.of(publisher)
    if channel is None:
        raise ExpectedError(
            f"'{publisher}' has no channel: its posts are delivered to each follower."
        )
    if as_json:
        _print_changed(head, publisher, was)
        return
    verb = "is demoted now" if was == ACTIVE else "was demoted already"
    readable = f"readable until {until_of(channel)}"
    print_result(f"The channel of '{publisher}' {verb}, and {readable}: {sum_of(head)}.")


def _check_room(head: Head, publisher: str) -> None:
    if head.is_full and head.of(publisher) is None:
        freed = [channel for channel in head.channels.values() if not channel.is_active]
        first = min(freed, key=lambda channel: channel.until, default=None)
        when = f"the next one is free after {until_of(first)}" if first else "none is demoted"
        raise ExpectedError(
            f"All {MOST} channels are taken, and {when}. `fanfold channels list` shows them; "
            f"until then the posts of '{publisher}' are delivered to each follower."
        )


def _add(heads: HeadTable, seen: Head, publisher: str, *, followers: int) -> Head:
    """Return the head once it has an active channel of the publisher, no matter who added it."""
    for _ in clock.tries(*STEP):
        added = heads.add(publisher, seen, followers=followers)
        if added:
            return added
        seen = heads.get()
        if state_of(seen, publisher) == ACTIVE:
            return seen
        _check_room(seen, publisher)
    raise TryLater("Other channels were added at the same time.")


def _demote(heads: HeadTable, publisher: str, *, until: int) -> Head:
    """Return the head once it has no active channel of the publisher, no matter who demoted it."""
    for _ in clock.tries(*STEP):
        # None if it is demoted already, by another command or by our own retried update.
        head = heads.demote(publisher, until=until) or heads.get()
        if state_of(head, publisher) != ACTIVE:
            return head
    raise TryLater("The channel was added again at the same time.")


def _meaning_of_add(head: Head, publisher: str, found: Estimate) -> str:
    units = post_units(max(1, len(head.channels)), found.followers).writes
    return (
        f"New posts of '{publisher}' then go into one channel, which {_about(found)} "
        f"{'reads' if found.followers == 1 else 'read'}: about "
        f"{units:.0f} write units a post instead of {pushed_to(found).write_units:,}. A post is "
        f"visible within about {HEAD_SECONDS:.0f} s in every warm container. Each follower reads "
        "one more channel. Older posts stay where they are."
    )


def _meaning_of_demote(deployment: Deployment, publisher: str, days: int) -> str:
    found = followers_of(deployment, publisher)
    pushed = pushed_to(found)
    again = ""
    if found.followers >= (threshold_of(deployment) or math.inf):
        again = (
            " Once the place is free, PLAN gives it a channel again with its next post: it has as "
            "many followers as -c channel_threshold= requires."
        )
    return (
        f"New posts of '{publisher}' are then delivered to each of {_about(found)} again, at "
        f"{pushed.write_units:,} write units and {dollars(pushed.dynamodb_dollars)} a post. Its "
        f"channel stays readable for {days + MARGIN_DAYS} days, the retention and {MARGIN_DAYS} "
        f"days more, and keeps its place among the {MOST}.{again}"
    )


def _about(found: Estimate) -> str:
    return f"{'' if found.exact else 'about '}{counted(found.followers, 'follower')}"


def _print_changed(head: Head, publisher: str, was: str) -> None:
    channel = head.of(publisher)
    assert channel is not None
    content = content_of(channel)
    print_json({**content, "was": was, "changed": content["state"] != was})

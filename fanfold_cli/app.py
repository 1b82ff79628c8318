"""The commands of `fanfold`, in the panels of its help; each is imported when it is called."""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from fanfold_cli import terminal
from fanfold_cli.main import version_line
from fanfold_cli.usage import hide_flag_types, plain_words

START, USE, OPERATE, GROW = "Start", "Use", "Operate", "Grow"


@dataclass(frozen=True)
class Entry:
    """A command in the list of commands; its module is imported only when it is called."""

    name: str
    panel: str
    summary: str  # the first sentence of its own help
    module: str = ""  # if its name is not the command's
    package: str = "commands"

    @cache  # noqa: B019 - the entries live as long as the process
    def load(self) -> TyperCommand | TyperGroup:
        module = import_module(f"fanfold_cli.{self.package}.{self.module or self.name}")
        holder = typer.Typer()
        if hasattr(module, "app"):
            holder.add_typer(module.app, name=self.name)
        else:
            holder.command(self.name)(getattr(module, self.name))
        command = get_group(holder).commands[self.name]
        assert isinstance(command, TyperCommand | TyperGroup)
        return command


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("local", START, "Run the whole stack on this machine"),
        Entry("demo", START, "Show the main job on the local engine", package="run"),
        Entry("seed", START, "Load a follow graph"),
        Entry("preflight", START, "Check whether a deploy would succeed"),
        Entry("smoke", START, "Try a deployed stage as two users made for it", package="run"),
        Entry("publish", USE, "Publish a post as a user", module="posts"),
        Entry("edit", USE, "Edit your post", module="posts"),
        Entry("retract", USE, "Retract your post", module="posts"),
        Entry("follow", USE, "Follow a publisher", module="relations"),
        Entry("unfollow", USE, "Unfollow a publisher", module="relations"),
        Entry("mute", USE, "Mute a publisher", module="relations"),
        Entry("unmute", USE, "Unmute a publisher", module="relations"),
        Entry("private", USE, "Go private or public, or show which", module="relations"),
        Entry("requests", USE, "List who asks to follow a user", module="relations"),
        Entry("approve", USE, "Approve a request to follow", module="relations"),
        Entry("remove", USE, "Remove a follower, or deny a request", module="relations"),
        Entry("block", USE, "Block a user", module="relations"),
        Entry("unblock", USE, "Unblock a user", module="relations"),
        Entry("timeline", USE, "Show a user's timeline, newest first"),
        Entry("unread", USE, "Count a user's unread entries", module="timeline"),
        Entry("token", USE, "Print an access token for a user", module="timeline"),
        Entry("status", OPERATE, "Say whether everything is well", package="health"),
        Entry("console", OPERATE, "Open a page that shows deliveries, queues and timelines live"),
        Entry("fanout", OPERATE, "Show, watch, list, resend or abandon deliveries of posts"),
        Entry("dlq", OPERATE, "List, show, redrive, drop or restore dead letters"),
        Entry("doctor", OPERATE, "Check that follows, edges and marks agree"),
        Entry("audit", OPERATE, "Check that readers have the posts they are owed", package="audit"),
        Entry("pause", OPERATE, "Pause deliveries"),
        Entry("resume", OPERATE, "Resume deliveries", module="pause"),
        Entry("cost", GROW, "Estimate the write budget of each lane, and the cost of a post"),
        Entry("shards", GROW, "Show or add write shards of publishers"),
        Entry("channels", GROW, "List, add or demote channels"),
    )
}


class Commands(TyperGroup):
    """Lists the entries, loads the one that is called, and reports wrong usage in plain words."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            entry.name: TyperCommand(
                entry.name, help=f"{entry.summary}.", rich_help_panel=entry.panel
            )
            for entry in ENTRIES.values()
        }

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        hide_flag_types(params)
        return params

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name is None or command is None:
            return name, command, rest
        loaded = ENTRIES[name].load()
        for each in (loaded, *getattr(loaded, "commands", {}).values()):
            hide_flag_types(each.get_params(ctx))
        return name, loaded, rest

    def make_context(self, *given: Any, **options: Any) -> Any:
        with plain_words():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        with plain_words():
            return super().invoke(ctx)


app = typer.Typer(
    name="fanfold",
    cls=Commands,
    help="Use and operate a Fanfold stack, on AWS or on the local engine.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    add_completion=True,
    pretty_exceptions_enable=False,
)


def _version(is_asked: bool) -> None:
    if is_asked:
        terminal.print_result(version_line())
        raise typer.Exit


@app.callback()
def fanfold(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Use and operate a Fanfold stack, on AWS or on the local engine."""

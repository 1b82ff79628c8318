"""Commands of the documentation exist, and those that no test runs are listed with a reason."""

from __future__ import annotations

import re

import typer

from fanfold_cli.app import app
from tests.pages import (
    AWS,
    BY_HAND,
    PAGES,
    ROOT,
    blocks,
    fanfold_commands,
    inline_commands,
    not_run,
)
from tools.contract_docs import files

# tests/e2e/api/test_examples.py runs the first, tests/e2e/operating/test_pages.py the others.
RUN = {"docs/api.md", "README.md", "docs/clients.md", "docs/operations.md"}
BLOCKS = blocks()
# Of all pages with decisions and results of benches, but without what a program writes alone. It
# only comes down.
MOST_WORDS = 44_832
INSTALLS_CDK = re.compile(r"npm install aws-cdk(?:@\w+)?")
# A word of a sentence, or a part left out, and no option of a command.
_LEFT_OUT = {"…", "..."}


def parse(words: list[str], *, is_whole: bool) -> None:
    """Have the command line read the words, and run nothing."""
    command = typer.main.get_command(app)
    context = command.make_context("fanfold", [], resilient_parsing=True)
    rest = [word for word in words if word not in _LEFT_OUT]
    while hasattr(command, "resolve_command") and rest and not rest[0].startswith("-"):
        name, command, rest = command.resolve_command(context, rest)
        context = type(context)(command, parent=context, info_name=name)
    if is_whole:
        assert not hasattr(command, "resolve_command"), words
    known = {option for p in command.get_params(context) for option in p.opts + p.secondary_opts}
    wanted = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert wanted <= known | {"--help", "-h"}, words


def test_every_block_says_whether_a_test_runs_it() -> None:
    for block in BLOCKS:
        assert block.mark in ("", AWS) or block.mark.startswith(BY_HAND), block
        # With a backtick, Markdown would not take the line for the start of a block.
        assert "`" not in block.mark, block
    assert {block.page for block in BLOCKS if not block.mark} == RUN


def test_the_cdk_command_line_is_never_installed_without_its_major_version() -> None:
    # 3.0.0 is on the registry, by accident, and does not work.
    places = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("*.md"), *ROOT.glob("fanfold_cli/**/*.py")]
    told = [word for place in places for word in re.findall(INSTALLS_CDK, place.read_text())]
    assert set(told) == {"npm install aws-cdk@2"}


def test_commands_that_no_test_runs_are_listed() -> None:
    page = (ROOT / "docs/verified.md").read_text()
    assert not_run() in page, f"docs/verified.md should have:\n{not_run()}"


def test_commands_of_blocks_and_in_sentences_exist_with_their_options() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for block in BLOCKS:
        for words in fanfold_commands(block.commands):
            parse(words, is_whole=True)
        assert set(re.findall(r"^make ([a-z-]+)", block.commands, re.MULTILINE)) <= targets
    for _, text in inline_commands():
        for words in fanfold_commands(text.replace("[", "").replace("]", "").replace("|", " ")):
            parse(words, is_whole=False)


def test_links_between_pages_lead_somewhere() -> None:
    for path in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]+))?\)", path.read_text()):
            file = (path.parent / target).resolve() if target else path
            assert file.exists(), f"{path}: {target}"
            if anchor and file.suffix == ".md":
                assert anchor in anchors(file.read_text()), f"{path}: {target}#{anchor}"


def anchors(text: str) -> set[str]:
    """Those that GitHub gives to headings."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


SHOWN = re.compile(r"\[([^\]]+)\]\(\.\./(tests/[a-z_/0-9]+\.(?:py|ts))\)")


def test_every_line_of_the_threat_model_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    lines = [line for line in page.splitlines() if re.match(r"\| (?!they|---)", line)]
    assert lines
    for line in lines:
        named = SHOWN.findall(line)
        assert named, line
        for sentence, path in named:
            name = "def test_" + re.sub(r"\W+", "_", sentence) + "("
            assert name in (ROOT / path).read_text(), f"{path}: {sentence}"


def test_the_pages_do_not_grow_in_words() -> None:
    places = {*PAGES, ROOT / "CHANGELOG.md", *ROOT.glob("docs/decisions/*.md")}
    places -= {files.TODAY / files.SETTINGS}
    words = sum(len(path.read_text().split()) for path in places)
    assert words <= MOST_WORDS, f"{words:,} words: take out what readers can do without"
    assert words > MOST_WORDS * 0.99, f"{words:,} words: lower the bound, and keep what is won"

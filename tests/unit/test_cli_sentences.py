"""What a user types wrong is answered with a sentence that helps."""

import gzip
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold_cli import graph
from fanfold_cli.console import ExpectedError
from fanfold_cli.home import Home
from fanfold_cli.main import app


@pytest.mark.parametrize("user", ["a#b", "ali ce", "é", "x" * 300, ""])
def test_a_user_that_is_no_id_is_refused_before_anything_else(tmp_path: Path, user: str) -> None:
    home = str(tmp_path)
    ran = CliRunner().invoke(app, ["local", "token", "--user", user, "--home", home])
    assert isinstance(ran.exception, ExpectedError)
    assert "--user must be 1 to 128 letters, digits and _ . : | @ + = -" in str(ran.exception)


def test_a_damaged_gzip_file_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv.gz"
    whole = gzip.compress(b"publisher,follower\n" + b"a,b\n" * 1000)
    path.write_bytes(whole[:10] + b"\xff" * 20 + whole[30:])
    with pytest.raises(ExpectedError, match="cannot be read as CSV"):
        graph.read(path)


def test_a_csv_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("publisher,follower\na,b\n", encoding="utf-8-sig")
    assert graph.read(path) == graph.Graph({"a": frozenset({"b"})})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("publisher;follower\na;b\n", "put commas between the columns"),
        ("publisher, follower\na,b\n", "without spaces around them"),
    ],
)
def test_a_csv_header_that_is_wrong_says_how(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(ExpectedError, match=sentence):
        graph.read(path)


def test_the_local_token_does_not_name_an_option_that_it_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ran = CliRunner().invoke(app, ["local", "token", "--user", "alice", "--home", str(home.path)])
    assert "fanfold local up" in str(ran.exception)
    assert "--stack" not in str(ran.exception)

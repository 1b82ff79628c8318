"""What a user types wrong is answered with a sentence that helps."""

import gzip
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold_cli import graph
from fanfold_cli.console import ExpectedError
from fanfold_cli.local.home import Home
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
        ("publisher,follower,follower\na,b,c\n", "names a column twice"),
    ],
)
def test_a_csv_header_that_is_wrong_says_how(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(text)
    with pytest.raises(ExpectedError, match=sentence):
        graph.read(path)


@pytest.mark.parametrize("line", ["a", "a,b,c", 'a,"b'])
def test_a_csv_line_of_another_length_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "edges.csv"
    path.write_text(f"publisher,follower\nx,y\n{line}\n")
    if '"' in line:
        path.write_text(path.read_text() + "c,d\n")
    with pytest.raises(ExpectedError, match=r"line \d: it must have 2 values|must be ids"):
        graph.read(path)


def test_a_gzipped_file_of_another_name_is_recognized(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_bytes(gzip.compress(b"publisher,follower\na,b\n"))
    with pytest.raises(ExpectedError, match=r"Then its name must end in \.gz"):
        graph.read(path)


def test_a_gzipped_file_that_is_no_utf8_is_not_asked_for_another_name(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv.gz"
    path.write_bytes(gzip.compress("publisher,follower\na,b\n".encode("utf-16")))
    with pytest.raises(ExpectedError, match="not text in UTF-8") as raised:
        graph.read(path)
    assert "must end in" not in str(raised.value)


def test_columns_beside_are_ignored_whatever_their_names(tmp_path: Path) -> None:
    path = tmp_path / "edges.csv"
    path.write_text("publisher,follower,,\na,b,,\n")
    assert graph.read(path) == graph.Graph({"a": frozenset({"b"})})


def test_the_version_is_that_of_the_package() -> None:
    ran = CliRunner().invoke(app, ["--version"])
    assert (ran.exit_code, ran.stdout) == (0, f"fanfold {version('fanfold')}\n")


def test_the_local_token_does_not_name_an_option_that_it_lacks(tmp_path: Path) -> None:
    home = Home(tmp_path)
    ran = CliRunner().invoke(app, ["local", "token", "--user", "alice", "--home", str(home.path)])
    assert "fanfold local up" in str(ran.exception)
    assert "--stack" not in str(ran.exception)

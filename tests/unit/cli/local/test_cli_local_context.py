"""The values of `fanfold local up -c`, without an engine."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold_cli.app import app
from fanfold_cli.local import context, deploy
from fanfold_cli.local.home import CHECKOUT, Home
from fanfold_cli.terminal import WrongValue


@pytest.mark.parametrize("text", ["backfill", "=10", ""])
def test_what_is_not_a_name_and_a_value_is_refused(text: str) -> None:
    ran = CliRunner().invoke(app, ["local", "up", "-c", text])
    assert isinstance(ran.exception, WrongValue)
    assert "-c must be NAME=VALUE, such as backfill=10" in str(ran.exception)


def test_the_app_in_the_directory_judges() -> None:
    context.check({"backfill": "10"}, CHECKOUT)
    with pytest.raises(WrongValue, match=r"Nothing was changed\. 'backfill' must be from 0 to"):
        context.check({"backfill": "1000"}, CHECKOUT)


def test_a_refused_value_starts_no_engine(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with pytest.raises(WrongValue, match="has the stage 'local' and no other"):
        deploy.bring_up(home, given={"stage": "prod"})
    assert home.read_state() is None
    assert not home.log.exists()

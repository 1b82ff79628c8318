"""Settings and the environment."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold import names
from fanfold.settings import Settings

TEXT = st.text(st.characters(codec="ascii", exclude_characters="\x00"))
KINDS = {int: st.integers(), bool: st.booleans()}
any_settings = st.builds(
    Settings,
    **{f.name: KINDS.get(type(f.default), TEXT) for f in fields(Settings)},  # type: ignore[arg-type]
)
REQUIRED = {f.name.upper(): f.name for f in fields(Settings) if f.name.endswith(("table", "url"))}


@given(any_settings)
def test_the_environment_gives_the_same_settings_back(settings: Settings) -> None:
    assert Settings.from_env(settings.to_env()) == settings


def test_every_table_and_queue_has_its_setting() -> None:
    wanted = {table.setting for table in names.TABLES}
    for queue in names.QUEUES:
        wanted |= {queue.url_setting, queue.dlq_url_setting}
    assert wanted == set(REQUIRED.values())


def test_all_missing_variables_are_named_at_once() -> None:
    env = {name: "x" for name in REQUIRED if name not in ("POSTS_TABLE", "BULK_DLQ_URL")}
    with pytest.raises(KeyError, match=r"POSTS_TABLE, BULK_DLQ_URL"):
        Settings.from_env(env)


@pytest.mark.parametrize(("now", "longest", "entries"), [(30, 0, 30), (7, 30, 30), (90, 30, 90)])
def test_an_entry_may_be_as_old_as_the_longest_retention(
    now: int, longest: int, entries: int
) -> None:
    settings = replace(
        Settings.from_env(REQUIRED), retention_days=now, longest_retention_days=longest
    )
    assert settings.entry_days == entries

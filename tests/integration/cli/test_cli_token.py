"""`fanfold token`: nobody's password is taken by surprise, and never on a stage that keeps data."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

from fanfold import names
from fanfold_cli.users.sign_in import MARK, sign_in
from tests import commands as acting
from tests.commands import FakeLambda, Ran, Stack, client_of, outputs, run
from tests.service import REGION, System


def token(known: dict[str, str], *words: str) -> Ran:
    with patch("tests.commands.outputs", lambda: known):
        return run("token", *words, lambda_=FakeLambda())


@pytest.fixture
def known(system: System) -> dict[str, str]:
    """The outputs of a stack with a user pool, where maria is a real person."""
    outputs = acting.pool_outputs()
    make_real_user(outputs)
    return outputs


def cognito() -> Any:
    return client_of("cognito-idp", None, REGION)


def make_real_user(known: dict[str, str]) -> None:
    pool = known[names.USER_POOL_ID_OUTPUT]
    cognito().admin_create_user(UserPoolId=pool, Username="maria", MessageAction="SUPPRESS")
    cognito().admin_set_user_password(
        UserPoolId=pool, Username="maria", Password="Real-Person-1", Permanent=True
    )


def can_still_sign_in(known: dict[str, str]) -> bool:
    try:
        cognito().admin_initiate_auth(
            UserPoolId=known[names.USER_POOL_ID_OUTPUT],
            ClientId=known[names.USER_POOL_CLIENT_ID_OUTPUT],
            AuthFlow="ADMIN_USER_PASSWORD_AUTH",
            AuthParameters={"USERNAME": "maria", "PASSWORD": "Real-Person-1"},
        )
    except cognito().exceptions.NotAuthorizedException:
        return False
    return True


def test_only_the_token_is_printed_and_the_id_goes_to_stderr(known: dict[str, str]) -> None:
    ran = token(known, "--user", "alice")
    assert (ran.exit_code, ran.stdout.count("."), len(ran.stdout.split())) == (0, 2, 1)
    again = token(known, "--user", "alice", "--json")
    assert again.json.keys() == {"user", "sub", "token", "id"}
    assert again.json["id"] == again.json["sub"] != "alice"
    assert f"alice is known as {again.json['sub']}" in ran.said


def test_a_real_persons_password_is_taken_by_an_explicit_word_only(known: dict[str, str]) -> None:
    ran = token(known, "--user", "maria")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "was not made by this command line, and would lose the password" in ran.said
    assert can_still_sign_in(known)
    assert token(known, "--user", "maria", "--reset-password").exit_code == 0
    assert not can_still_sign_in(known)


@pytest.mark.parametrize("words", [(), ("--reset-password",)])
def test_on_a_stage_that_keeps_its_data_nobody_is_made_and_nothing_is_reset(
    system: System, words: tuple[str, ...]
) -> None:
    known = acting.pool_outputs(is_protected=True)
    make_real_user(known)
    for user in ("maria", "new"):
        ran = token(known, "--user", user, *words)
        assert (ran.exit_code, ran.stdout) == (1, "")
        assert "This stage keeps its data, so its users are real" in ran.said
    assert can_still_sign_in(known)
    listed = cognito().list_users(UserPoolId=known[names.USER_POOL_ID_OUTPUT])["Users"]
    assert [user["Username"] for user in listed] == ["maria"]


def test_a_user_whose_making_was_interrupted_is_made_the_next_time(known: dict[str, str]) -> None:
    stack = Stack(REGION, None, known)
    with (
        patch("fanfold_cli.users.sign_in._password", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        sign_in(stack, "alice")
    assert sign_in(stack, "alice").user == "alice"


def test_a_stack_without_a_pool_says_where_its_users_come_from(system: System) -> None:
    ran = token(outputs(), "--user", "alice")
    assert ran.exit_code == 1
    assert "come from an issuer of its own choice" in ran.said


def test_users_cannot_write_the_attribute_that_marks_them() -> None:
    # `infra/identity.py` lets them write one.
    assert MARK["Name"] not in ("locale", "email")

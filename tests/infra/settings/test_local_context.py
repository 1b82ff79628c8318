"""What `fanfold local up -c` may give, as the app judges it before anything is started."""

import pytest

from infra.settings.checks import StageError
from infra.settings.local_context import CANNOT, check, main
from infra.settings.stages import LOCAL, Stage


def test_a_value_that_an_engine_can_have_is_taken() -> None:
    check({})
    check({"backfill": "10", "cors_origins": "http://localhost:5173", "transport": "boto3"})


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"stage": "prod"}, "has the stage 'local' and no other"),
        ({"stage": "local"}, "leave 'stage' out"),
        ({"jwt_issuer": "https://a.example"}, "'jwt_issuer' cannot be set here: users of a local"),
        ({"runtime": "python3.9"}, "'runtime' cannot be set here: it follows from this machine"),
        ({"keep_data": "true"}, "the data of a local engine ends with it"),
        ({"alarm_email": "a@example.com"}, "sends no e-mail"),
        # As of a real deploy:
        ({"backfill": "1000"}, "'backfill' must be from 0 to 30, not 1000"),
        ({"back-fill": "10"}, "did you mean 'backfill'?"),
    ],
)
def test_a_value_that_no_engine_can_have_is_refused_with_its_reason(
    values: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StageError, match=sentence):
        check(values)


def test_what_cannot_be_set_are_fields_of_a_stage() -> None:
    assert CANNOT.keys() <= Stage.__dataclass_fields__.keys()
    assert LOCAL.user_pool


def test_the_program_ends_with_only_the_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    main(["backfill=10", "cors_origins=https://a.example"])
    with pytest.raises(SystemExit) as end:
        main(["backfill=x"])
    assert end.value.code == "'backfill' must be a whole number, not 'x'."
    assert capsys.readouterr().out == ""

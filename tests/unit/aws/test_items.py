"""Values of conditional writes."""

import pytest

from fanfold.aws.items import expressions, number


def test_a_value_of_the_condition_cannot_replace_a_value_of_a_clause() -> None:
    with pytest.raises(ValueError, match=":version"):
        expressions(
            sets={"version": number(2)},
            condition="#version = :version",
            values={":version": number(1)},
        )

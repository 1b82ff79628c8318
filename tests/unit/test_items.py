"""Expressions of conditional writes: clauses, placeholders, values."""

import pytest

from fanfold.aws.items import expressions, number, text


def test_every_clause_calls_attributes_and_values_by_placeholders() -> None:
    assert expressions(
        sets={"state": text("done"), "resume.3": text("c"), "last": "if_not_exists(#last, :now)"},
        adds={"delivered": number(25)},
        deletes={"pending": {"NS": ["3"]}},
        removes=["open", "late.3"],
        condition="contains(#pending, :segment)",
        values={":now": text("noon"), ":segment": number(3)},
    ) == {
        "UpdateExpression": "SET #state = :state, #resume.#3 = :resume_3, "
        "#last = if_not_exists(#last, :now) ADD #delivered :delivered "
        "DELETE #pending :pending REMOVE #open, #late.#3",
        "ConditionExpression": "contains(#pending, :segment)",
        "ExpressionAttributeNames": {
            f"#{name}": name
            for name in ("state", "resume", "3", "last", "delivered", "pending", "open", "late")
        },
        "ExpressionAttributeValues": {
            ":state": text("done"),
            ":resume_3": text("c"),
            ":delivered": number(25),
            ":pending": {"NS": ["3"]},
            ":now": text("noon"),
            ":segment": number(3),
        },
    }


def test_parts_that_are_empty_are_left_out() -> None:
    assert expressions(condition="attribute_not_exists(#edge)") == {
        "ConditionExpression": "attribute_not_exists(#edge)",
        "ExpressionAttributeNames": {"#edge": "edge"},
    }


def test_a_value_of_the_condition_cannot_replace_a_value_of_a_clause() -> None:
    with pytest.raises(ValueError, match=":version"):
        expressions(
            sets={"version": number(2)},
            condition="#version = :version",
            values={":version": number(1)},
        )

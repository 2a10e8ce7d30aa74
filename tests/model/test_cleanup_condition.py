"""Conditions of cleanup rules: text to data and back."""

from __future__ import annotations

from typing import Any

import pytest

from rota.errors import InputError
from rota.model.cleanup import age_words
from rota.model.cleanup_condition import condition_text, parse_condition


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("status <> 'pending'", [{"column": "status", "op": "<>", "value": "pending"}]),
        ("Status != 'it''s'", [{"column": "status", "op": "<>", "value": "it's"}]),
        ('"Is used" = TRUE', [{"column": "Is used", "op": "=", "value": True}]),
        ("n>=-3 AND x is NOT null",
         [{"column": "n", "op": ">=", "value": -3}, {"column": "x", "op": "is not null"}]),
        ("x is null", [{"column": "x", "op": "is null"}]),
        ("kind in ('a', 'b')", [{"column": "kind", "op": "in", "value": ["a", "b"]}]),
        ("price < 1.5", [{"column": "price", "op": "<", "value": 1.5}]),
    ],
)  # fmt: skip
def test_what_can_be_read(text: str, found: list[dict[str, Any]]) -> None:
    assert parse_condition(text) == found
    assert parse_condition(condition_text(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "status", "status =", "= 1", "status = pending", "a = 1 or b = 2", "a = 1 b = 2",
        "a in ()", "a in (1", "a is 3", "a = 1; DROP TABLE x", "now() > a", "a = (SELECT 1)",
        "a = 'x' --", "a like '%'", "a = 1 and", "a = 12abc", "'a' = 1",
    ],
)  # fmt: skip
def test_what_cannot_is_refused_with_what_can(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read") as caught:
        parse_condition(text)
    assert "COLUMN in (1, 2)" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("age", "words"),
    [(604_800, "7 days"), (86_400, "1 day"), (90, "90 seconds"), (0, "0 seconds"),
     (5400, "90 minutes"), ("168 hours", "168 hours"),
     (1.5, "1.5 seconds")],
)  # fmt: skip
def test_ages(age: Any, words: str) -> None:
    assert age_words(age) == words


def test_what_nobody_can_read_is_shown_as_it_is() -> None:
    assert condition_text([{"odd": 1}, 7]) == "{'odd': 1} and 7"
    assert condition_text(None) == ""

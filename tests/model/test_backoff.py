from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rota.model.backoff import KINDS, Backoff

seconds = st.floats(0, 1e9)
attempts = st.integers(-(10**30), 10**30)
backoffs = st.builds(
    Backoff,
    kind=st.sampled_from(KINDS),
    base=seconds,
    factor=st.floats(1, 1e6),
    cap=seconds,
    jitter=seconds,
)


def none() -> float:
    return 0.0


@given(backoffs, attempts, st.floats(0, 1, exclude_max=True))
def test_a_delay_lies_between_nothing_and_cap_plus_jitter(
    backoff: Backoff, attempt: int, chance: float
) -> None:
    assert 0 <= backoff.delay(attempt, lambda: chance) <= backoff.cap + backoff.jitter


@given(backoffs, attempts, attempts)
def test_a_later_attempt_never_waits_less(backoff: Backoff, one: int, other: int) -> None:
    earlier, later = sorted((one, other))
    assert backoff.delay(earlier, none) <= backoff.delay(later, none)


@given(backoffs, attempts, st.floats(0, 1, exclude_max=True))
def test_the_same_chance_gives_the_same_delay(
    backoff: Backoff, attempt: int, chance: float
) -> None:
    assert backoff.delay(attempt, lambda: chance) == backoff.delay(attempt, lambda: chance)


@given(backoffs)
def test_the_first_attempt_waits_the_base_and_so_do_zero_and_less(backoff: Backoff) -> None:
    first = backoff.delay(1, none)
    assert first == min(backoff.base, backoff.cap)
    assert backoff.delay(0, none) == backoff.delay(-5, none) == first


@given(backoffs)
def test_the_stored_form_comes_back_the_same(backoff: Backoff) -> None:
    assert Backoff.from_json(json.loads(json.dumps(backoff.to_json()))) == backoff


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("exponential", [5, 10, 20, 40, 80, 160, 300, 300]),
        ("linear", [5, 10, 15, 20, 25, 30, 35, 40]),
        ("fixed", [5] * 8),
    ],
)
def test_the_default_numbers(kind: Any, expected: list[float]) -> None:
    backoff = Backoff(kind)
    assert [backoff.delay(attempt, none) for attempt in range(1, 9)] == expected


def test_jitter_comes_on_top_of_the_cap() -> None:
    assert Backoff(base=500, cap=300, jitter=10).delay(10_000, lambda: 0.5) == 305


def test_an_endless_exponential_of_nothing_is_nothing() -> None:
    assert Backoff(base=0).delay(10_000, none) == 0


def test_the_stored_form_names_its_units() -> None:
    assert Backoff().to_json() == {
        "kind": "exponential",
        "base_seconds": 5.0,
        "factor": 2.0,
        "cap_seconds": 300.0,
        "jitter_seconds": 1.0,
    }


def test_what_the_stored_form_leaves_out_has_its_default() -> None:
    assert Backoff.from_json({"kind": "fixed"}) == Backoff("fixed")


def test_users_write_a_backoff_a_kind_or_a_mapping() -> None:
    default = Backoff(base=7)
    assert Backoff.parse(Backoff("fixed"), default) == Backoff("fixed")
    assert Backoff.parse("linear", default) == Backoff("linear", base=7)
    assert Backoff.parse({"kind": "fixed", "cap_seconds": 9}, default) == Backoff(
        "fixed", base=7, cap=9
    )
    assert Backoff.parse({"base": timedelta(minutes=1)}) == Backoff(base=60)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("quadratic", "one of exponential, linear, fixed, not 'quadratic'"),
        ({"base": -1}, "backoff base must be a duration of at least 0, not -1"),
        ({"factor": 0.5}, "backoff factor must be a number of at least 1, not 0.5"),
        ({"cap": float("nan")}, "backoff cap must be a duration"),
        ({"cap": float("inf")}, "backoff cap must be a duration"),
        ({"jitter": True}, "backoff jitter must be a duration"),
        ({"base": "soon"}, "backoff base must be a duration"),
        ({"bass": 5}, "backoff: unknown option bass; choose from kind, base"),
        (7, "must be a Backoff, one of"),
    ],
)
def test_bad_input_is_named(value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Backoff.parse(value)


def test_the_stored_form_refuses_names_it_does_not_have() -> None:
    with pytest.raises(
        ValueError, match="backoff: unknown option base; choose from kind, base_seconds"
    ):
        Backoff.from_json({"base": 5})

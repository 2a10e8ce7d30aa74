"""Numbers, rates and durations as people read them."""

from __future__ import annotations

import math

import pytest

from rota.model import formatting


@pytest.mark.parametrize(
    ("per_second", "said"),
    [
        (None, ""), (0, "0/s"), (4.54e-05, "0.2/h"), (0.005, "0.3/min"), (0.1, "0.1/s"),
        (1, "1/s"), (2.52, "2.5/s"), (99.96, "100/s"), (12_345.6, "12,346/s"), (1e-9, "< 0.1/d"),
        (1e-05, "0.9/d"), (math.nan, "unreadable"),
    ],
)  # fmt: skip
def test_rates(per_second: float | None, said: str) -> None:
    assert formatting.rate(per_second) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, ""), (0, "0"), (1234567, "1,234,567"), (13.695065453999973, "13.7"),
        (1234.5, "1,234"), (0.0454, "0.0454"), (4.54e-05, "< 0.001"), (math.inf, "unreadable"),
    ],
)  # fmt: skip
def test_numbers_have_no_exponent(value: float | None, said: str) -> None:
    assert formatting.number(value) == said


@pytest.mark.parametrize(
    ("value", "typed"), [(1_000_000, "1000000"), (0.05, "0.05"), (2.0, "2"), (0.01, "0.01")]
)
def test_what_somebody_typed_is_shown_so(value: float, typed: str) -> None:
    assert formatting.plain(value) == typed


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 runs"), (1, "1 run"), (2, "2 runs"), (1500, "1,500 runs")]
)
def test_plurals(count: int, said: str) -> None:
    assert formatting.plural(count, "run") == said


def test_a_plural_that_is_not_regular() -> None:
    assert formatting.plural(2, "entry", "entries") == "2 entries"


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (None, ""), (0, "0 ms"), (0.000004, "0 ms"), (0.32, "0.32 ms"), (84.4, "84 ms"),
        (999.9, "1 s"), (1234, "1.2 s"), (45_000, "45 s"), (59_990, "1m"), (200_000, "3m 20s"),
        (7_500_000, "2h 5m"), (math.nan, "unreadable"),
    ],
)  # fmt: skip
def test_how_long_something_took(milliseconds: float | None, said: str) -> None:
    assert formatting.took(milliseconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 ms"), (1e-9, "0 ms"), (0.0042, "4.2 ms"), (0.0844, "84 ms"), (0.9999, "1 s"),
        (4.24, "4.2 s"), (250, "4 min 10 s"), (8040, "2 h 14 min"), (-5, "−5 s"),
    ],
)  # fmt: skip
def test_durations_of_sentences(seconds: float, said: str) -> None:
    assert formatting.duration(seconds) == said


@pytest.mark.parametrize(
    ("share", "said"),
    [(0, "0 %"), (1, "100 %"), (0.9333, "93.3 %"), (1e-07, "< 0.01 %"), (0.0001, "0.01 %")],
)
def test_shares(share: float, said: str) -> None:
    assert formatting.percent(share) == said

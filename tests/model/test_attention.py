"""What is unusual, since when, and what takes too long."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rota.model.attention import Minute, began, is_slow, is_unusual

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("bad", "good", "usual_bad", "usual_good", "is_news"),
    [
        (0, 10, 0.0, 0.0, False),
        (1, 0, 0.0, 0.0, True),  # all of it fails
        (5, 0, 5.0, 0.0, True),  # as it always did: that needs somebody too
        (1, 100, 0.0, 100.0, False),  # once
        (2, 100, 0.0, 100.0, False),
        (4, 100, 0.0, 100.0, False),
        (5, 100, 0.0, 100.0, True),
        (2, 2, 0.0, 0.0, True),  # half of it fails
        (6, 424, 1.0, 300.0, False),
        (412, 226, 9.0, 600.0, True),
        (12, 600, 9.0, 600.0, False),
        (18, 1200, 9.0, 600.0, False),  # twice the work, twice the failures
        (3, 1, 3.0, 1.0, False),
    ],
)
def test_failures_are_news_when_they_are_unusual(
    bad: int, good: int, usual_bad: float, usual_good: float, is_news: bool
) -> None:
    assert is_unusual(bad, good, usual_bad, usual_good) is is_news


def minutes(pattern: str) -> list[Minute]:
    """`x` fails, `o` goes well, `m` both; a space is a minute without work."""
    return [
        Minute(START + timedelta(minutes=n), int(one in "om"), int(one in "xm"))
        for n, one in enumerate(pattern)
        if one != " "
    ]


@pytest.mark.parametrize(
    ("pattern", "first"),
    [
        ("ooooo", None),
        ("oooooxx", 5),
        ("xxoooooxm", 7),  # it went well in between
        ("xxooxx", 0),  # not for long enough
        ("x         x         x", 0),  # rarely, and always
        ("xooooo", None),
    ],
)
def test_failing_began_when_it_last_went_well(pattern: str, first: int | None) -> None:
    expected = None if first is None else START + timedelta(minutes=first)
    assert began(minutes(pattern)) == expected


@pytest.mark.parametrize(
    ("seconds", "attempts", "p99", "longest", "is_it"),
    [
        (59, 1000, 0.1, 0.2, False),  # nobody minds
        (61, 1000, 0.1, 0.2, True),
        (100, 1000, 60, 70, False),
        (130, 1000, 60, 70, True),
        (130, 1000, 60, 120, False),  # it has been as long before
        (100, 2, 1, 1, False),  # nothing is usual yet
        (100, 5, 1, 40, False),
        (121, 5, 1, 40, True),
    ],
)
def test_a_run_is_slow_beside_what_is_usual(
    seconds: float, attempts: int, p99: float, longest: float, is_it: bool
) -> None:
    assert is_slow(seconds, attempts, p99, longest) is is_it

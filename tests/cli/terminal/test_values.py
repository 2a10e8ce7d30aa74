from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import typer

from rota.cli.terminal import times, values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("1w", 604_800), ("500ms", 0.5),
        ("1h30m", 5400), ("1.5h", 5400), ("30", 30), ("0.5", 0.5), (" 5M ", 300),
    ],
)  # fmt: skip
def test_durations(text: str, expected: float) -> None:
    assert values.seconds(text, "--x") == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "x", "5x", "m5", "5m x", "-5m", "1h-30m", "1e3", "nan", "٣s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a duration"):
        values.seconds(text, "--x")


def test_instants_and_durations_back_from_now() -> None:
    assert values.since("2h", "--x") == timedelta(hours=2)
    assert values.since("2026-01-31T14:30:00Z", "--x") == datetime(2026, 1, 31, 14, 30, tzinfo=UTC)
    local = values.since("2026-01-31", "--x")
    assert isinstance(local, datetime)
    assert local.utcoffset() is not None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (-3, "0s"), (45.4, "45s"), (60, "1m"), (61, "1m 1s"), (3600, "1h"),
        (3660, "1h 1m"), (3601, "1h"), (90_000, "1d 1h"), (86_400 * 400, "400d"),
    ],
)  # fmt: skip
def test_spans(seconds: float, text: str) -> None:
    assert times.span(seconds) == text


def test_took() -> None:
    assert [times.took(it) for it in (None, 3.2, 1500, 61_000)] == ["", "3.2 ms", "1.5 s", "1m 1s"]


def test_ago_and_in() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert times.ago(now - timedelta(minutes=5), now) == "5m ago"
    assert times.ago(now + timedelta(hours=2), now) == "in 2h"

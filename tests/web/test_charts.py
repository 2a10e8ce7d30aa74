"""Charts: axes with round numbers and round times, and steps that have not ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from rota.web.axes import Unit, axis_of, ticks_of
from rota.web.charts import bars, line, steps
from rota.web.plots import Kind, Plot, PlotLine

SINCE = datetime(2026, 6, 1, 0, 7, tzinfo=UTC)


def plot_of(kind: Kind, *values: float | None, unit: Unit = "ms") -> Plot:
    lines = [PlotLine("p95", kind, "ink", values)]
    return Plot("x", "Pick-up", "from", unit, SINCE, 60, lines, "90 ms", "nothing", UTC)


@pytest.mark.parametrize(
    ("most", "unit", "labels"),
    [
        (0, "count", ["", "0"]),
        (3, "count", ["3", "2", "1", "0"]),
        (6, "count", ["6", "4", "2", "0"]),
        (70, "count", ["80", "60", "40", "20", "0"]),
        (101, "rate", ["150", "100", "50", "0"]),
        (0.8, "rate", ["0.8", "0.6", "0.4", "0.2", "0"]),
        (100, "percent", ["100 %", "50 %", "0 %"]),
        (90, "ms", ["100 ms", "50 ms", "0"]),
        (2600, "ms", ["3 s", "2 s", "1 s", "0"]),
        (400, "s", ["8 min", "6 min", "4 min", "2 min", "0"]),
        (5 * 3600, "s", ["6 h", "4 h", "2 h", "0"]),
        (float("inf"), "s", ["", "0"]),
    ],
)
def test_an_axis_has_steps_of_1_2_or_5_with_their_unit(
    most: float, unit: Unit, labels: list[str]
) -> None:
    assert axis_of([None, most], unit).labels == labels


@pytest.mark.parametrize(
    ("hours", "texts"),
    [
        (1, ["00:10", "00:20", "00:30", "00:40", "00:50", "01:00"]),
        (6, ["01:00", "02:00", "03:00", "04:00", "05:00", "06:00"]),
        (24, ["06:00", "12:00", "18:00", "00:00"]),
        (168, ["Tue 2", "Wed 3", "Thu 4", "Fri 5", "Sat 6", "Sun 7", "Mon 8"]),
    ],
)
def test_times_are_round(hours: int, texts: list[str]) -> None:
    found = ticks_of(SINCE, hours * 3600, UTC)
    assert [it.text for it in found] == texts
    assert all(0 <= it.at <= 100 for it in found)


def test_times_are_round_on_the_wall_clock_of_the_viewer() -> None:
    kathmandu = ZoneInfo("Asia/Kathmandu")
    found = ticks_of(SINCE, 86_400, kathmandu)
    assert [it.text for it in found] == ["06:00", "12:00", "18:00", "00:00"]
    first = SINCE + timedelta(seconds=864 * found[0].at)
    assert f"{first.astimezone(kathmandu):%H:%M}" == "06:00"
    berlin = ZoneInfo("Europe/Berlin")
    changed = ticks_of(datetime(2026, 3, 28, 22, tzinfo=UTC), 86_400, berlin)
    assert [it.text for it in changed] == ["00:00", "06:00", "12:00", "18:00", "00:00"]


def test_the_last_step_has_not_ended() -> None:
    plot = plot_of("area", 4.0, 90.0)
    assert json.loads(plot.data) == {
        "times": ["00:07", "00:08, so far"],
        "lines": [["p95", ["4 ms", "90 ms"]]],
    }
    assert steps([4.0], 100, 2) == "M0 96H300", "the line ends before it"
    assert bars([90.0], 100, 2, 1) == "M330 100V10h240V100z"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2, 3, None, 5, 6], "line"),
        ([None, 4, None, 90, None], "bars"),
        ([1, 2, 3, 4, None, 5], "line"),
        ([None, None, None], "line"),
    ],
)
def test_sparse_values_are_bars(values: Sequence[float | None], kind: Kind) -> None:
    (drawn,) = plot_of("line", *values).drawn
    assert drawn.kind == kind


def test_a_value_between_gaps_is_as_wide_as_its_step() -> None:
    assert line([None, 4.0, None, 90.0], 100) == "M150 96h150M450 10h150"
    assert line([1, 2, None, 3], 4) == "M75 75L225 50M450 25h150"

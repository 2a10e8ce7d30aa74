"""A duration is read by one function; every interface takes the same values."""

from __future__ import annotations

import ast
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import rota
from rota.api.operations import body_of
from rota.cli.terminal import values
from rota.jobs.job_settings import job_settings
from rota.jobs.values import check_duration
from rota.model.durations import read_duration
from rota.timing.interval import every, step_of
from rota.web.forms import read_span

TEXTS = {
    "90": 90, "90s": 90, "90 s": 90, "1h30m": 5400, "1h 30min": 5400, "15min": 900, "15 MIN": 900,
    "500ms": 0.5, "1.5h": 5400, "2d": 172_800, "1w": 604_800, "PT1H30M": 5400, "P1DT12H": 129_600,
    "P2W": 1_209_600, "PT0.5S": 0.5,
}  # fmt: skip
NONE: list[Any] = [
    "", " ", "x", "5x", "m5", "5m x", "-5m", "1h-30m", "1e3", "nan", "P", "PT", "P1Y", "P1M", "٣s",
    "9" * 200, True, None, [], float("nan"), float("inf"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "seconds"), TEXTS.items())
def test_every_interface_reads_the_same(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds
    assert check_duration("x", text, least=0) == seconds
    assert values.seconds(text, "--x") == seconds
    assert read_span(text) == timedelta(seconds=seconds)
    assert job_settings()["delay_seconds"].read(text) == seconds
    body = body_of("Delay", [job_settings()["delay_seconds"]], "A delay.")
    assert body.model_validate({"delay_seconds": text}).delay_seconds == seconds
    if seconds >= 1:
        assert every(f"@every {text}") == step_of(text) == timedelta(seconds=seconds)
    assert rota.Backoff(base=text).base == seconds  # type: ignore[arg-type]


def test_numbers_and_timedeltas_are_durations() -> None:
    assert read_duration(90) == read_duration(90.0) == read_duration(timedelta(seconds=90)) == 90
    assert read_duration(-5) == -5  # the range is the caller's to check


@pytest.mark.parametrize("value", NONE)
def test_anything_else_is_none(value: Any) -> None:
    assert read_duration(value) is None


def test_no_other_module_has_a_grammar_of_durations() -> None:
    """A table from units to seconds is how one begins."""
    found = []
    for path in Path(rota.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            keys = [one.value for one in getattr(node, "keys", ()) if isinstance(one, ast.Constant)]
            if isinstance(node, ast.Dict) and {"s", "h", "d"} <= {str(key) for key in keys}:
                found.append(path.name)
    assert found == ["durations.py"]

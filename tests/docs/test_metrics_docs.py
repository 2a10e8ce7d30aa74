"""docs/reference/metrics.md names every metric, with its type and labels, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from rota.telemetry.metrics import METRICS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(rota_\w+)` \| (gauge|counter|histogram) \| (.*?)\| (.+) \|$", re.M)


def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    rows = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), text)
        for name, kind, labels, text in _ROW.findall(PAGE)
    ]
    actual = [
        (f"{one.name}_total" if one.kind == "counter" else one.name, one.kind, one.labels, one.help)
        for one in METRICS
    ]
    assert rows == actual


def test_rules_speak_of_metrics_that_exist() -> None:
    named = {re.sub(r"_(bucket|total)$", "", it) for it in re.findall(r"rota_[a-z_]+[a-z]", PAGE)}
    assert named <= {one.name for one in METRICS}

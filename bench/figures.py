"""Figures: what was measured, by phase, case, row and metric; medians and spreads of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

# Metric → whether more of it is better.
MORE_IS_BETTER: Mapping[str, bool] = {
    "runs/s": True,
    "p50 ms": False,
    "p99 ms": False,
    "behind ms": False,
    "first start ms": False,
    "worker CPU µs/run": False,
    "server CPU µs/run": False,
    "WAL bytes/run": False,
    "table bytes/run": False,
    "dead rows/run": False,
    "MB before": False,
    "MB after": False,
    "second/first half": True,  # and "round N runs/s"
}


@dataclass(frozen=True, slots=True, order=True)
class Key:
    phase: str
    case: str
    metric: str


@dataclass(slots=True)
class Figure:
    """One value for each round."""

    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def spread(self) -> float:
        """From the smallest to the largest, as a part of the median."""
        return (max(self.values) - min(self.values)) / self.median if self.median else 0.0


class Figures:
    """All of a bench, in the order in which they came."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._figures: dict[Key, dict[str, Figure]] = {}
        # Case of a phase → the case that it is compared with.
        self.bases: dict[tuple[str, str], str] = {}
        self.notes: list[str] = []

    def add(self, phase: str, case: str, row: str, values: Mapping[str, float]) -> None:
        if row not in self.rows:
            self.rows.append(row)
        for metric, value in values.items():
            figures = self._figures.setdefault(Key(phase, case, metric), {})
            figures.setdefault(row, Figure()).values.append(value)

    def all_keys(self) -> list[Key]:
        return list(self._figures)

    def get(self, key: Key, row: str) -> Figure | None:
        return self._figures.get(key, {}).get(row)

    def better(self, key: Key, row: str = "rota") -> dict[str, float]:
        """How many times better `row` is than each of the others."""
        own = self.get(key, row)
        if own is None:
            return {}
        others = {name: self.get(key, name) for name in self.rows if name != row}
        return {
            name: ratio
            for name, other in others.items()
            if other is not None and (ratio := _ratio(key.metric, own, other)) is not None
        }

    def against_base(self, key: Key, row: str = "rota") -> float | None:
        """How many times better this case is than the one it is compared with."""
        base = self.bases.get((key.phase, key.case))
        own = self.get(key, row)
        other = self.get(Key(key.phase, base, key.metric), row) if base else None
        return _ratio(key.metric, own, other) if own and other else None

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {
                "phase": key.phase, "case": key.case, "metric": key.metric, "row": row,
                "values": figure.values, "median": figure.median, "spread": figure.spread,
                "rota_is_better": self.better(key).get(row),
                "against_base": self.against_base(key, row),
            }
            for key, figures in self._figures.items()
            for row, figure in figures.items()
        ]  # fmt: skip


def _ratio(metric: str, own: Figure, other: Figure) -> float | None:
    above, below = own.median, other.median
    if not MORE_IS_BETTER.get(metric, True):
        above, below = below, above
    return above / below if below else None

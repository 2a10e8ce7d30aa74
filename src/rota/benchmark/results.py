"""One measured figure of Rota, beside that of the floor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Measurement:
    name: str
    unit: str
    rota: float
    floor: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return how much of the floor's rate Rota reaches."""
        return self.rota / self.floor if self.floor else None


def middle(rounds: Sequence[Sequence[Measurement]]) -> list[Measurement]:
    """The median of each figure over all rounds."""
    return [
        Measurement(
            name=same[0].name,
            unit=same[0].unit,
            rota=median(figure.rota for figure in same),
            floor=None if same[0].floor is None else median(figure.floor or 0.0 for figure in same),
        )
        for same in zip(*rounds, strict=True)
    ]

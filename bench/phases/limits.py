"""Throughput under limits, beside the same without: one that never binds, one that lets ten run at
once, and one with a counter for each run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from bench.phases.base import Case, Measure, Phase, Sizes, figures_of, only_rota
from bench.systems.base import System

_SET = "SELECT rota.set_limit('bench', %s)"


def cases(sizes: Sizes) -> Sequence[Case]:
    def under(limit: Mapping[str, Any] | None) -> Measure:
        def measure(system: System) -> dict[str, float]:
            system.fresh()
            if limit is not None:
                with system.server.connect(system.database) as conn:
                    conn.execute(_SET, [json.dumps({"queue": "default", **limit})])
            return figures_of(system.work_off(sizes.runs))

        return measure

    return [
        Case("no limit", under(None), only_rota),
        Case("not binding", under({"cap": 1_000_000}), only_rota, base="no limit"),
        Case("10 at once", under({"cap": 10}), only_rota, base="no limit"),
        Case("a key for each", under({"cap": 1, "key": "{n}"}), only_rota, base="no limit"),
    ]


PHASE = Phase("limits", cases)

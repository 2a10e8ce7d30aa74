"""Counts log lines for a chart, at a cost that does not grow with their number."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from rota.errors import SearchError
from rota.model.field_values import past_instant
from rota.model.log_question import LogQuestion
from rota.model.log_volume import LogStep, LogVolume
from rota.postgres.logs.logs import BAD, start_search
from rota.postgres.plans import Execute, Plan, Rows

_STEPS = 60
# Up to this many lines are examined individually; otherwise this many of each step. Searching for
# words takes longer.
_ALL, _ALL_WORDS = 12_000, 3_000
_SOME, _SOME_WORDS = 120, 40
_MOST_OF_RUN = 50_000
_NAMES = 8
_DAY = timedelta(days=1)


def read_volume(question: LogQuestion) -> Plan[LogVolume]:
    params, now = yield from start_search(question)
    until = past_instant(question.until, now) or now
    since = past_instant(question.since, now) or until - _DAY
    if since >= until:
        raise SearchError("since must be before until")
    step = (until - since).total_seconds() / _STEPS
    place = {"since": since, "until": until, "step": step, "steps": _STEPS}
    if question.run_id is not None:
        marks = yield Execute("runs/created_after", {"id": question.run_id})
        own = {"run": question.run_id, "low": marks[0]["since"] or "-infinity"}
        rows = yield Execute(
            "logs/volume_of_run", params | place | own | {"run_most": _MOST_OF_RUN}
        )
        return _volume(since, until, step, rows)
    bad = bool(question.levels) and BAD.issuperset(question.levels or ())
    place |= {"is_bad": bad, "names_most": _NAMES}
    most = yield from _most(question, params | place)
    rows = yield Execute("logs/volume", params | place | {"most": most})
    return _volume(since, until, step, rows)


def _most(question: LogQuestion, params: dict[str, Any]) -> Plan[int]:
    """Return how many lines of a step to examine: all, if there are few in all steps."""
    few = _ALL if question.text.is_empty else _ALL_WORDS
    (row,) = yield Execute("logs/amount", params | {"most": few})
    if row["lines"] < few:
        return few
    return _SOME if question.text.is_empty else _SOME_WORDS


def _volume(since: datetime, until: datetime, step: float, rows: Rows) -> LogVolume:
    counts: list[dict[str, int]] = [{} for _ in range(_STEPS)]
    edges: dict[int, datetime] = {}
    jobs: dict[str, int] = {}
    workers: dict[int, int] = {}
    is_all = True
    for row in rows:
        if row["kind"] == "step":
            counts[min(row["n"], _STEPS - 1)][row["name"]] = row["lines"]
        elif row["kind"] == "job":
            jobs[row["name"]] = row["lines"]
        elif row["kind"] == "worker":
            workers[row["worker"]] = row["lines"]
        else:
            is_all = False
            if row["n"] is not None:
                edges[row["n"]] = row["edge"]
    starts = [since + timedelta(seconds=n * step) for n in range(_STEPS)]
    steps = [_step(starts[n], counts[n], edges.get(n), step) for n in range(_STEPS)]
    counted = sum(sum(levels.values()) for levels in counts)
    return LogVolume(since, until, step, steps, counted, is_all, jobs, workers)


def _step(at: datetime, counts: dict[str, int], edge: datetime | None, step: float) -> LogStep:
    """Extrapolate from the examined part to the whole step."""
    if edge is None:
        return LogStep(at, counts)
    share = min(1.0, max((edge - at).total_seconds() / step, 0.001))
    return LogStep(at, {level: round(n / share) for level, n in counts.items()}, is_rough=True)

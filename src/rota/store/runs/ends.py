"""Ends of single runs, as statements for a transaction that is not ours alone. A worker's ends by
the hundred go over its own connection: store/pipeline/."""

from __future__ import annotations

from rota.model.outcome import Ended, Outcome, Refused
from rota.model.run import Claim
from rota.store.pipeline.ends import ended_columns, refuse_columns, requeue_columns
from rota.store.statements import Statement, Statements


def finish_one(
    statements: Statements, claim: Claim, worker: int, ms: float, result: str | None
) -> Statement:
    """A success. Answers 1, or 0 where the run belongs to somebody else by now."""
    return statements.get("runs/finish"), {
        "worker": worker,
        "ids": [claim.id],
        "attempts": [claim.attempt],
        "durations": [ms],
        "results": [result],
    }


def end_one(
    statements: Statements, claim: Claim, worker: int, ms: float, outcome: Outcome
) -> Statement:
    """Whatever the outcome: the run ends, or is tried again. Returns as `finish_one` does."""
    rows = [(claim.id, claim.attempt, ms, outcome)]
    if isinstance(outcome, Ended):
        return statements.get("runs/end"), ended_columns(worker, rows)
    if isinstance(outcome, Refused):
        return statements.get("runs/refuse"), refuse_columns(worker, rows)
    return statements.get("runs/requeue"), requeue_columns(worker, rows)

"""Statements that end single runs in a transaction shared with users' code.

Ends in large numbers are sent over the worker's own connection: postgres/pipeline/.
"""

from __future__ import annotations

from rota.model.outcome import Ended, Outcome, Refused
from rota.model.run import Claim
from rota.postgres.pipeline.ends import ended_columns, refuse_columns, requeue_columns
from rota.postgres.statements import Statement, Statements


def finish_one(
    statements: Statements, claim: Claim, worker: int, ms: float, result: str | None
) -> Statement:
    """Return the statement of a success. Its result is 1, or 0 if the run now belongs to another
    owner."""
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
    """Return the statement of any outcome: the run ends, or is tried again. Its result is that of
    `finish_one`."""
    rows = [(claim.id, claim.attempt, ms, outcome)]
    if isinstance(outcome, Ended):
        return statements.get("runs/end"), ended_columns(worker, rows)
    if isinstance(outcome, Refused):
        return statements.get("runs/refuse"), refuse_columns(worker, rows)
    return statements.get("runs/requeue"), requeue_columns(worker, rows)

"""The statements that enqueue: prepared for Rota's connections, as text for callers'."""

from __future__ import annotations

from typing import NamedTuple

from rota.postgres.pipeline.prepared import Prepared
from rota.postgres.statements import Statements


class EnqueueOne(NamedTuple):
    sql: str
    prepared: Prepared


class EnqueueStatements:
    """Statements by kind of enqueue. `plain`: no option except queue and priority. `uniform`: many
    runs that differ only in their payloads; `mixed`: many that differ in more. All return run_id
    and is_duplicate."""

    def __init__(self, statements: Statements) -> None:
        plain, full = statements.get("runs/enqueue_plain"), statements.get("runs/enqueue")
        self.plain = EnqueueOne(plain, Prepared("enqueue", plain))
        self.full = EnqueueOne(full, Prepared("enqueue_full", full))
        self.uniform = statements.get("runs/enqueue_batch")
        self.mixed = statements.get("runs/enqueue_many")

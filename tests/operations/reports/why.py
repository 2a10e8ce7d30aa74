"""Asking why, as the tests of `why` do."""

from __future__ import annotations

from typing import Any

import rota
from rota.model.why import Reason
from tests.sql_engine import Engine

Reasons = dict[str, Reason]


class Asker:
    """Asks in Python, and holds SQL to the same answer each time."""

    def __init__(self, app: rota.App, engine: Engine) -> None:
        self.app = app
        self.engine = engine

    def __call__(self, subject: object, kind: Any = None, tenant: str = "") -> Reasons:
        answer = self.app.why.sync(str(subject), kind=kind, tenant=tenant)
        found = {one.code: one for one in answer.reasons}
        assert len(found) == len(answer.reasons), "no reason twice"
        told = self.engine.rows("SELECT * FROM rota.why(%s, %s, %s)", str(subject), kind, tenant)
        assert [row["code"] for row in told] == [one.code for one in answer.reasons]
        for one in answer.reasons:
            assert "{" not in one.sentence + one.next_step + (one.command or ""), one
            assert one.sentence.endswith((".", "…”.")), one.sentence
            assert ".." not in one.sentence, one.sentence
            assert one.next_step.endswith("."), one.next_step
            assert one.command is None or one.command.startswith("rota "), one.command
        return found

    def codes(self, subject: object, kind: Any = None, tenant: str = "") -> list[str]:
        return list(self(subject, kind, tenant))

"""Asking why, as the tests of `why` do."""

from __future__ import annotations

from typing import Any

import rota
from rota.model.why import Reason
from tests.printed import run_printed
from tests.sql_engine import Engine

Reasons = dict[str, Reason]


class Asker:
    """Asks in Python, and holds SQL to the same answer each time."""

    def __init__(self, app: rota.App, engine: Engine) -> None:
        self.app = app
        self.engine = engine
        self._printed: list[str] = []

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
        self._printed = [one.command for one in answer.reasons if one.command is not None]
        return found

    def run_printed(self) -> None:
        """Each command of the last answer runs as it is printed."""
        url = str(self.app.config.database_url)
        faults = [wrong for line in self._printed if (wrong := run_printed(url, line))]
        assert not faults, faults

    def codes(self, subject: object, kind: Any = None, tenant: str = "") -> list[str]:
        return list(self(subject, kind, tenant))

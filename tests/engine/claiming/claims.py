"""Claims that no database has made."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rota.model.run import Claim

NOW = datetime(2026, 6, 1, tzinfo=UTC)


def make_claim(run_id: int = 1, **fields: Any) -> Claim:
    plain = Claim(
        run_id, run_id, 1, 0, 3, 5, "default", "work", b"{}", None, None, None, False,
        NOW, NOW, None, "",
    )  # fmt: skip
    return plain._replace(**fields)

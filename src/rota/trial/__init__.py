"""`rota bench`: how fast Rota is on your own server, beside the floor under it."""

from __future__ import annotations

from rota.trial.figures import Figure
from rota.trial.trial import SCHEMA, try_out

__all__ = ["SCHEMA", "Figure", "try_out"]

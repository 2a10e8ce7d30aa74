"""The basic jobs, in a worker that waits a second for an answer where others wait half a minute."""

from __future__ import annotations

from rota.postgres.pipeline import prepared
from tests.apps.basic import app

__all__ = ["app"]

prepared._ANSWER_SECONDS = 1.0

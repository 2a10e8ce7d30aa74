"""Retention of finished runs and other history: `app.retention`."""

from __future__ import annotations

import copy
from typing import Self

from rota.config import Config
from rota.model.retention import Hurry, RetentionResult
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, stepwise
from rota.postgres.retention.retention import retain
from rota.postgres.steps import OnProgress, Steps


class RetentionCommands(Commands):
    """Preview or run retention outside the nightly jobs."""

    config: Config

    @stepwise
    def plan(self) -> Steps[RetentionResult]:
        """List what a retention pass would delete now. Changes nothing."""
        return retain(self.config.retention, dry_run=True)

    @stepwise
    def run(
        self, *, hurry: Hurry = False, on_progress: OnProgress | None = None
    ) -> Steps[RetentionResult]:
        """Delete expired data now instead of waiting for the nightly pass.

        Raises WrongState while another pass is running. `on_progress` is called with the number of
        newly removed rows."""
        return retain(self.config.retention, hurry=hurry, on_progress=on_progress)

    def of(self, config: Config) -> Self:
        """Return a copy with other settings."""
        other = copy.copy(self)
        other.config = config
        return other


class RetentionPasses(RetentionCommands, AsyncCommands):
    """`app.retention`"""

    @property
    def sync(self) -> SyncRetention:
        return SyncRetention(self.database, self.actor).of(self.config)


class SyncRetention(RetentionCommands, SyncCommands):
    """`app.retention.sync`"""

"""How long what has ended is kept: `app.retention`."""

from __future__ import annotations

import copy
from typing import Self

from rota.admin.commands import AsyncCommands, Commands, SyncCommands, stepwise
from rota.config import Config
from rota.model.retention import RetentionResult
from rota.store.retention.retention import retain
from rota.store.steps import OnProgress, Steps


class RetentionCommands(Commands):
    """Beside the nightly jobs: for whoever wants to know beforehand, or not to wait for them."""

    config: Config

    @stepwise
    def plan(self) -> Steps[RetentionResult]:
        """What a pass would remove now, by partition, table and job."""
        return retain(self.config.retention, dry_run=True)

    @stepwise
    def run(
        self, *, hurry: bool = False, on_progress: OnProgress | None = None
    ) -> Steps[RetentionResult]:
        """Remove it. WrongState while another pass is at work. In a `hurry` it does not rest
        between portions, and workers feel it. `on_progress` is told how many more rows have
        gone."""
        return retain(self.config.retention, hurry=hurry, on_progress=on_progress)

    def of(self, config: Config) -> Self:
        """The same by other numbers."""
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

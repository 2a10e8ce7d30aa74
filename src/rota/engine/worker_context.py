"""The parts that the roles of one worker share: its settings, its loops and its lifecycle state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rota.config import Config
from rota.engine.background import Background
from rota.engine.executors.lifespans import Lifespans
from rota.engine.executors.threads import ThreadPool
from rota.engine.lease.health import Health
from rota.engine.listener import Listener
from rota.engine.loops.definitions import Definitions
from rota.engine.loops.retention import BuiltInJobs
from rota.engine.pace import Pace
from rota.engine.processes.parent import Parent
from rota.engine.processes.relayed import RelayedListener
from rota.jobs.registry import Registry
from rota.postgres.sessions.pool import Database


@dataclass(slots=True)
class WorkerContext:
    config: Config
    database: Database
    registry: Registry
    app_ref: str | None
    owns_process: bool
    parent: Parent | None
    version: str
    health: Health
    pace: Pace
    definitions: Definitions
    built_in: BuiltInJobs
    lifespans: Lifespans
    threads: ThreadPool = field(default_factory=ThreadPool)
    state: Literal["new", "running", "stopping", "stopped"] = "new"
    # Set when the database is open.
    background: Background = field(init=False)
    listener: Listener | RelayedListener = field(init=False)

    @property
    def is_running(self) -> bool:
        return self.state == "running"

    async def start_loops(self) -> None:
        await self.background.start()
        self.definitions.start()
        self.listener.start()

    def look_again(self) -> None:
        """Wake all loops, because calls may have been missed for a while."""
        self.background.look_again()
        self.definitions.wake()

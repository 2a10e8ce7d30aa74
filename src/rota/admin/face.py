"""A use case is written once and has two faces: `app.runs` to await, `app.runs.sync` to call.

    class QueueCommands(Face):
        @command
        def pause(self, name: str, reason: str | None = None) -> Plan[None]:
            return queues.pause_queue(name, reason=reason, actor=self.actor)

    class Queues(QueueCommands, AsyncFace): …
    class SyncQueues(QueueCommands, SyncFace): …

A command is a plan; which face it is asked through decides how the database carries it out.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from rota.store.plans import Plan, limited
from rota.store.pool import Database

P = ParamSpec("P")
T = TypeVar("T")


class Face:
    """What all have: a database, the name that the audit gets, and perhaps a limit of time."""

    seconds: float | None = None

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self.database = database
        self.actor = actor

    def by(self, actor: str | None) -> Self:
        """The same, on behalf of somebody: `app.runs.by("alice").cancel(7)`."""
        other = copy.copy(self)
        other.actor = actor
        return other

    def within(self, seconds: float) -> Self:
        """The same, in a hurry: a statement that takes longer is a DatabaseError (57014)."""
        other = copy.copy(self)
        other.seconds = seconds
        return other


class AsyncFace(Face):
    """Commands are coroutines."""


class SyncFace(Face):
    """Commands return when they are done."""


class Command(Generic[P, T]):
    """A method that makes a plan, as one that carries it out."""

    def __init__(self, plan: Callable[Concatenate[Any, P], Plan[T]]) -> None:
        self._plan = plan
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, face: None, owner: type[Face]) -> Self: ...
    @overload
    def __get__(
        self, face: AsyncFace, owner: type[Face]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, face: SyncFace, owner: type[Face]) -> Callable[P, T]: ...
    def __get__(self, face: Any, owner: Any) -> Any:
        if face is None:
            return self
        run = face.database.run_sync if isinstance(face, SyncFace) else face.database.run
        plan = self._plan

        @wraps(plan)
        def carry_out(*args: Any, **kwargs: Any) -> Any:
            made = plan(face, *args, **kwargs)
            return run(made if face.seconds is None else limited(made, face.seconds))

        return carry_out


def command(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
    return Command(plan)

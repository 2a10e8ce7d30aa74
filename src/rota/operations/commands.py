"""Each use case is written once and called in two ways: `app.runs` to await, `app.runs.sync` to
block.

    class QueueCommands(Commands):
        @command
        def pause(self, name: str, reason: str | None = None) -> Plan[None]:
            return queues.pause_queue(name, reason=reason, actor=self.actor)

    class Queues(QueueCommands, AsyncCommands): …
    class SyncQueues(QueueCommands, SyncCommands): …

A command is a plan; the class through which it is called decides how the database executes it. A
`joining` command takes `connection=`, and is executed there, in the caller's transaction.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from rota.errors import RotaError
from rota.operations.joined import run_joined, run_joined_sync
from rota.operations.scope import Scope
from rota.postgres.plans import Plan, limited
from rota.postgres.sessions.pool import Database
from rota.postgres.steps import Steps, run_steps, run_steps_sync

if TYPE_CHECKING:
    from rota.operations.registry import Noun, Operation

P = ParamSpec("P")
T = TypeVar("T")
# Where a page begins: the `cursor` of the page before.
Cursor = Sequence[Any] | None


class Commands:
    """Base of all command sets: a database, the actor that the audit records, and an optional time
    limit."""

    seconds: float | None = None
    # The tenant that a tenant handle restricts the commands to.
    tenant: str | None = None
    scope: Scope = Scope()
    # The noun of its operations.
    noun: Noun

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self.database = database
        self.actor = actor

    def by(self, actor: str | None) -> Self:
        """A copy that acts for this actor: `app.runs.by("alice").cancel(7)`."""
        other = copy.copy(self)
        other.actor = actor
        return other

    def within(self, seconds: float) -> Self:
        """A copy with a time limit: a statement that takes longer raises DatabaseError (57014)."""
        other = copy.copy(self)
        other.seconds = seconds
        return other

    def of_tenant(self, tenant: str | None) -> Self:
        """A copy restricted to one tenant."""
        other = copy.copy(self)
        other.tenant = tenant
        return other


class AsyncCommands(Commands):
    """Commands are coroutines."""


class SyncCommands(Commands):
    """Commands return when they are done."""


class Command(Generic[P, T]):
    """Wraps a method that returns a plan, so that a call executes it: in one transaction, or step
    by step, or in the transaction of the caller."""

    def __init__(
        self,
        plan: Callable[..., Any],
        *,
        is_stepwise: bool = False,
        is_joining: bool = False,
        operation: Operation | None = None,
    ) -> None:
        self.plan = plan
        self.operation = operation
        self._is_stepwise = is_stepwise
        self._is_joining = is_joining
        self._name = plan.__name__
        self.__doc__ = plan.__doc__

    @overload
    def __get__(self, face: None, owner: type[Commands]) -> Self: ...
    @overload
    def __get__(
        self, face: AsyncCommands, owner: type[Commands]
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, face: SyncCommands, owner: type[Commands]) -> Callable[P, T]: ...
    def __get__(self, face: Any, owner: Any) -> Any:
        if face is None:
            return self
        plan = self.plan

        def begin(*args: Any, **kwargs: Any) -> Any:
            run = self._runner(face, kwargs.pop("connection", None) if self._is_joining else None)
            made = (
                plan(face, *args, **kwargs)
                if face.tenant is None
                else face.scope.keep(self._name, plan, face, args, kwargs)
            )
            return run(made if face.seconds is None else limited(made, face.seconds))

        if self.operation is None:
            return wraps(plan)(begin)
        name = self.operation.name_of(face.noun)

        @wraps(plan)
        def carry_out(*args: Any, **kwargs: Any) -> Any:
            with _naming(name):
                done = begin(*args, **kwargs)
            return _named(done, name) if isinstance(face, AsyncCommands) else done

        return carry_out

    def _runner(self, face: Commands, connection: Any) -> Callable[[Any], Any]:
        is_sync = isinstance(face, SyncCommands)
        if connection is not None:
            return partial(run_joined_sync if is_sync else run_joined, face.database, connection)
        if self._is_stepwise:
            return partial(run_steps_sync if is_sync else run_steps, face.database)
        return face.database.run_sync if is_sync else face.database.run


@contextmanager
def _naming(operation: str) -> Iterator[None]:
    """Note in errors which operation raised them."""
    try:
        yield
    except RotaError as error:
        error.operation = error.operation or operation
        raise


async def _named(done: Coroutine[Any, Any, T], operation: str) -> T:
    with _naming(operation):
        return await done


def command(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
    return Command(plan)


def joining(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
    """Execute the plan on the connection that the caller passes, if any; the caller commits or
    rolls back."""
    return Command(plan, is_joining=True)


def stepwise(plan: Callable[Concatenate[Any, P], Steps[T]]) -> Command[P, T]:
    """For long work: every statement of the plan is its own transaction."""
    return Command(plan, is_stepwise=True)

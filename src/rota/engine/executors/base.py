"""The contract of executors: an executor calls the body of an attempt and returns how the call
ended.

There is one file for each kind, and one line in `kinds.py`. An executor decides nothing about the
run: whether it is retried, and when, follows from the returned value
(`engine/attempts/verdict.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from rota.config import Config
from rota.engine.executors.threads import ThreadPool
from rota.engine.executors.transaction import AttemptTransaction
from rota.model.hook import Hook
from rota.model.outcome import SUCCEEDED, Outcome, Policy
from rota.model.run import Claim
from rota.postgres.sessions.pool import Database

# The results of a call. Structs, because creating one takes a quarter of a dataclass's time.


class Returned(msgspec.Struct, frozen=True):
    """The body has returned; `result` is JSON. The end of the run is still to be written."""

    result: str | None


class CommittedItself(msgspec.Struct, frozen=True):
    """The transaction of the body has already written the end of the run."""

    outcome: Outcome = SUCCEEDED
    # None: the duration of the attempt until now.
    duration_ms: float | None = None


class Decided(msgspec.Struct, frozen=True):
    """The body itself has decided the outcome. The end is still to be written."""

    outcome: Outcome
    duration_ms: float


class Raised(msgspec.Struct, frozen=True):
    """The body failed, or could not be called. An exception that leaves `Executor.call` counts as
    this, so an executor may simply raise the exception."""

    error: BaseException


class Lost(msgspec.Struct, frozen=True):
    """The child process died while it executed only this body."""

    error: BaseException


class NotBegun(msgspec.Struct, frozen=True):
    """The body was not called, for reasons other than the run: the run returns to its place."""

    reason: str


CallOutcome = Returned | CommittedItself | Decided | Raised | Lost | NotBegun

# Most bodies return nothing: avoids creating an object for each.
RETURNED_NOTHING = Returned(None)


class PayloadShape(Protocol):
    """The typed payload of a job."""

    @property
    def hash(self) -> int: ...
    @property
    def context_parameter(self) -> str | None: ...


class Handler(Protocol):
    """A body in Python, as its job declares it."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def schema(self) -> PayloadShape: ...


class CalledAttempt(Protocol):
    """An attempt, as seen by an executor."""

    claim: Claim
    worker: int
    started: float  # by the monotonic clock
    timeout: float | None
    transaction: AttemptTransaction | None
    # The handler's function and its arguments, for kinds that are bound.
    body: Callable[..., Any]
    arguments: dict[str, Any]
    # The hooks around the call, and their argument: the context, if there is one.
    around: tuple[Hook, ...]
    context: Any

    @property
    def handler(self) -> Handler: ...

    @property
    def started_at(self) -> datetime: ...

    @property
    def duration_ms(self) -> float: ...

    @property
    def is_cancelled(self) -> bool:
        """Return whether the attempt is being stopped; its result is discarded then."""

    @property
    def is_captured(self) -> bool:
        """Return whether lines that the body emits with logging and structlog are stored."""

    @property
    def stored_level(self) -> int: ...

    def encode(self, result: Any) -> str | None:
        """Encode the result of the body as JSON."""

    def policy(self) -> Policy: ...

    def tell_instead(self, on_stop: Callable[[], object]) -> None:
        """Call `on_stop` instead of cancelling the slot's task, for bodies that run elsewhere."""

    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    def store_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """Store a line that was printed elsewhere."""

    def report_progress(self, fraction: float, message: str | None) -> None: ...


@dataclass(frozen=True, slots=True)
class ExecutorContext:
    """Shared by the executors of a worker. `app_ref` names the application, for processes that have
    to import it."""

    config: Config
    database: Database
    threads: ThreadPool
    app_ref: str | None


class Executor(ABC):
    """Calls bodies of one kind, for one worker. Created at the worker's start; threads, processes
    and connections are opened by the first call."""

    # Whether the payload is decoded before `call`, while the claim is being committed. True for
    # kinds that call Python in this process.
    is_bound = False
    # Whether the body can crash the worker's process or a shared child. If so, a run that was lost
    # with its worker is called by the kind `isolated` the next time.
    is_dangerous = True

    def __init__(self, means: ExecutorContext) -> None:
        self._means = means

    @abstractmethod
    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        """Call the body. If cancelled, return when the body has ended or is abandoned."""

    async def close(self) -> None:  # noqa: B027
        """Release resources, because the worker stops."""

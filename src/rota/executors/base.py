"""The contract of executors: one calls the body of an attempt and says how the call came out.

One file for each kind, and one line in `kinds.py`. An executor decides nothing about the run:
whether it is retried, and when, follows from what is said here (`runtime/attempts/verdict.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import msgspec

from rota.config import Config
from rota.executors.threads import ThreadPool
from rota.executors.transaction import AttemptTransaction
from rota.model.hook import Hook
from rota.model.outcome import SUCCEEDED, Outcome, Policy
from rota.model.run import Claim
from rota.store.sessions.pool import Database

# How a call came out. Structs, because they are made in a quarter of a dataclass's time.


class Returned(msgspec.Struct, frozen=True):
    """The body has returned; `result` is JSON. The end of the run is still to be written."""

    result: str | None


class CommittedItself(msgspec.Struct, frozen=True):
    """The end of the run is written: by the transaction of what the body did."""

    outcome: Outcome = SUCCEEDED
    # None: as long as the attempt took until now.
    duration_ms: float | None = None


class Decided(msgspec.Struct, frozen=True):
    """The body itself has said what becomes of the run. The end is still to be written."""

    outcome: Outcome
    duration_ms: float


class Raised(msgspec.Struct, frozen=True):
    """The body failed, or could not be called. An exception that leaves `Executor.call` counts as
    this, so a kind that has the exception at hand just raises it."""

    error: BaseException


class Lost(msgspec.Struct, frozen=True):
    """The child process that ran this body, and nothing else, died."""

    error: BaseException


class NotBegun(msgspec.Struct, frozen=True):
    """The body was not called, and the run is not to blame: it goes back to its place."""

    reason: str


CallOutcome = Returned | CommittedItself | Decided | Raised | Lost | NotBegun

# Most bodies return nothing: said without making an object for each.
RETURNED_NOTHING = Returned(None)


class PayloadShape(Protocol):
    """The typed payload of a job."""

    @property
    def hash(self) -> int: ...
    @property
    def context_parameter(self) -> str | None: ...


class Handler(Protocol):
    """A body that is Python, as its job declares it."""

    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def schema(self) -> PayloadShape: ...


class CalledAttempt(Protocol):
    """An attempt as an executor sees it."""

    claim: Claim
    worker: int
    started: float  # by the monotonic clock
    timeout: float | None
    transaction: AttemptTransaction | None
    # The handler's function and what it is called with, for kinds that are bound.
    body: Callable[..., Any]
    arguments: dict[str, Any]
    # What surrounds the call, and what it is given: the context, where there is one.
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
        """Somebody wants it to stop; what it returns then is not kept."""

    @property
    def is_captured(self) -> bool:
        """Whether what logging and structlog emit in the body is stored."""

    @property
    def stored_level(self) -> int: ...

    def encode(self, result: Any) -> str | None:
        """What the body returned as JSON."""

    def policy(self) -> Policy: ...

    def tell_instead(self, on_stop: Callable[[], object]) -> None:
        """For bodies that the slot's task does not run: call this instead of cancelling it."""

    def write_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None: ...

    def store_log(self, level: str, message: str, fields: Mapping[str, Any]) -> None:
        """For lines that somebody else has printed."""

    def report_progress(self, fraction: float, message: str | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Means:
    """What the executors of a worker have in common. `app_ref` names the application, for processes
    that have to import it."""

    config: Config
    database: Database
    threads: ThreadPool
    app_ref: str | None


class Executor(ABC):
    """Calls bodies of one kind, for one worker. Made at its start: whatever a kind needs (threads,
    processes, connections) it opens with the first call."""

    # Whether the payload is decoded for `call`, while the claim is being committed. True for kinds
    # that call Python in this process.
    is_bound = False
    # Whether the body can crash the worker's process or a shared child. If so, a run that was lost
    # with its worker is called by the kind `isolated` the next time.
    is_dangerous = True

    def __init__(self, means: Means) -> None:
        self._means = means

    @abstractmethod
    async def call(self, attempt: CalledAttempt) -> CallOutcome:
        """Call the body. Cancelled, it returns when the body has ended, or is left for good."""

    async def close(self) -> None:  # noqa: B027
        """The worker ends."""

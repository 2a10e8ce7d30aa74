"""The handle on a run, which an enqueue returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from rota.errors import InputError, RotaError, RunFailed, RunNotFound
from rota.model.durations import Duration, read_duration
from rota.model.run import RunEnd, RunInfo
from rota.model.states import RunState

# The result type of the handler. `Run` alone is a run of any job.
R = TypeVar("R", default=Any)
# Covariant, so that one list may hold the runs of several jobs.
R_co = TypeVar("R_co", covariant=True, default=Any)


class RunReader(Protocol):
    """A handle's access to its run; the application provides it.

    `wait_run` returns when the run has ended, and raises WaitTimeout if it does not end in time.
    """

    async def get_run(self, run_id: int) -> RunInfo: ...
    def get_run_sync(self, run_id: int) -> RunInfo: ...
    async def wait_run(self, run_id: int, timeout: float | None) -> RunEnd: ...
    def wait_run_sync(self, run_id: int, timeout: float | None) -> RunEnd: ...
    async def cancel_run(self, run_id: int, reason: str | None) -> str: ...
    def cancel_run_sync(self, run_id: int, reason: str | None) -> str: ...
    async def retry_run(self, run_id: int, reason: str | None) -> None: ...
    def retry_run_sync(self, run_id: int, reason: str | None) -> None: ...


class Run(Generic[R_co]):
    """A run that was enqueued or, if `is_duplicate`, that already held the key."""

    __slots__ = ("_decode", "_reader", "id", "is_duplicate", "job")

    def __init__(
        self,
        run_id: int,
        job: str,
        is_duplicate: bool = False,
        reader: RunReader | None = None,
        decode: Callable[[Any], R_co] | None = None,
    ) -> None:
        self.id = run_id
        self.job = job
        self.is_duplicate = is_duplicate
        self._reader = reader
        self._decode = decode

    async def wait(self, timeout: Duration | None = None) -> R_co:
        """Wait until the run has succeeded and return the result, as the type that the handler
        declares.

        Raises RunFailed if the run failed or was cancelled, WaitTimeout if it did not end in time,
        ResultError if the stored result does not fit the declared type.
        """
        try:
            return self._result(await self._through.wait_run(self.id, _seconds(timeout)))
        except RunNotFound as error:
            raise _not_committed(error) from None

    def wait_sync(self, timeout: Duration | None = None) -> R_co:
        try:
            return self._result(self._through.wait_run_sync(self.id, _seconds(timeout)))
        except RunNotFound as error:
            raise _not_committed(error) from None

    async def info(self) -> RunInfo:
        """The current state of the run with all its fields."""
        return await self._through.get_run(self.id)

    def info_sync(self) -> RunInfo:
        return self._through.get_run_sync(self.id)

    async def state(self) -> RunState:
        """The current state of the run."""
        return (await self.info()).state

    def state_sync(self) -> RunState:
        return self.info_sync().state

    async def cancel(self, reason: str | None = None) -> str:
        """Cancel the run. Returns `cancelled` if it was waiting, `requested` if its worker has to
        stop it."""
        return await self._through.cancel_run(self.id, reason)

    def cancel_sync(self, reason: str | None = None) -> str:
        return self._through.cancel_run_sync(self.id, reason)

    async def retry(self, reason: str | None = None) -> None:
        """Requeue a failed or cancelled run under its id."""
        await self._through.retry_run(self.id, reason)

    def retry_sync(self, reason: str | None = None) -> None:
        self._through.retry_run_sync(self.id, reason)

    def _result(self, end: RunEnd) -> R_co:
        if end.state != "succeeded":
            raise RunFailed(end.id, end.state, end.end_reason, end.last_error)
        result: R_co = end.result if self._decode is None else self._decode(end.result)
        return result

    @property
    def _through(self) -> RunReader:
        if self._reader is None:
            raise RotaError(
                f"run {self.id} was enqueued without an application, so it cannot be queried"
            )
        return self._reader

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<Run {self.id} of {self.job}{' (duplicate)' if self.is_duplicate else ''}>"


def _not_committed(error: RunNotFound) -> RunNotFound:
    """Add a hint: a run that was enqueued but is not found was not committed."""
    hint = "its transaction has not been committed, or was rolled back; wait after the commit"
    return RunNotFound(str(error), hint=hint)


def _seconds(timeout: Duration | None) -> float | None:
    if timeout is None:
        return None
    found = read_duration(timeout)
    if found is None:
        raise InputError(f"timeout must be a duration, not {timeout!r}")
    return found

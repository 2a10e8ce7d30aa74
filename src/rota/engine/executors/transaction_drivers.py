"""The interface between the transaction of an attempt and each kind of connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from rota.engine.executors.ending import Rows


class AsyncTransactionDriver(Protocol):
    @property
    def is_strict(self) -> bool:
        """REPEATABLE READ or SERIALIZABLE: concurrent writes to the run make the transaction
        fail."""

    async def begin(self) -> None:
        """Open the transaction, and check that it is in Rota's own database."""

    def block(self) -> AbstractAsyncContextManager[Any]:
        """Open a savepoint; yield the object that the handler uses."""

    async def settle(self) -> None:
        """The handler has returned: flush pending writes and check deferred constraints."""

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows: ...

    async def commit(self) -> None: ...

    async def close(self) -> None:
        """Roll back uncommitted writes, and return the connection."""


class TransactionDriver(Protocol):
    @property
    def is_strict(self) -> bool: ...
    def begin(self) -> None: ...
    def block(self) -> AbstractContextManager[Any]: ...
    def settle(self) -> None: ...
    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None:
        """Called by another thread, while the thread of the handler may use the connection."""

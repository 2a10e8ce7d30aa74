"""What the transaction of an attempt needs from each kind of connection."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from rota.executors.ending import Rows


class AsyncWay(Protocol):
    @property
    def is_strict(self) -> bool:
        """REPEATABLE READ or SERIALIZABLE: whatever else is written to its run ends it."""

    async def begin(self) -> None:
        """Open the transaction, in Rota's own database."""

    def block(self) -> AbstractAsyncContextManager[Any]:
        """A savepoint; what the handler works with."""

    async def settle(self) -> None:
        """The handler has returned: have everything said and checked that is still to come."""

    async def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows: ...

    async def commit(self) -> None: ...

    async def close(self) -> None:
        """Roll back what is not committed, and give back what was taken."""


class Way(Protocol):
    @property
    def is_strict(self) -> bool: ...
    def begin(self) -> None: ...
    def block(self) -> AbstractContextManager[Any]: ...
    def settle(self) -> None: ...
    def fetch(self, sql: str, parameters: Mapping[str, Any]) -> Rows: ...
    def commit(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None:
        """Called by another thread: its own may be using it, and is not waited for."""

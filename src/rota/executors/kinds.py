"""The kinds of executors by name: for `executor=` of a job, or chosen by Rota."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.executors.base import Executor, Means
from rota.executors.coroutine import CoroutineExecutor
from rota.executors.isolated import IsolatedExecutor
from rota.executors.process import ProcessExecutor
from rota.executors.sql import SqlExecutor
from rota.executors.thread import ThreadExecutor

KINDS: Mapping[str, Callable[[Means], Executor]] = {
    "async": CoroutineExecutor,
    "thread": ThreadExecutor,
    "process": ProcessExecutor,
    "isolated": IsolatedExecutor,
    "sql": SqlExecutor,
}

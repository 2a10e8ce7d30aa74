"""The kinds of executors by name: for `executor=` of a job, or chosen by Rota."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rota.engine.executors.base import Executor, ExecutorContext
from rota.engine.executors.coroutine import CoroutineExecutor
from rota.engine.executors.isolated import IsolatedExecutor
from rota.engine.executors.process import ProcessExecutor
from rota.engine.executors.sql import SqlExecutor
from rota.engine.executors.thread import ThreadExecutor

KINDS: Mapping[str, Callable[[ExecutorContext], Executor]] = {
    "async": CoroutineExecutor,
    "thread": ThreadExecutor,
    "process": ProcessExecutor,
    "isolated": IsolatedExecutor,
    "sql": SqlExecutor,
}

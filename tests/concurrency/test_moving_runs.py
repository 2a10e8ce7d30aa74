"""A run goes from the open ones to the history and back, and is always somewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest

import rota
from rota.errors import RotaError, RunNotFound
from tests.sql_engine import Engine

Connect = Callable[..., psycopg.Connection[Any]]

MOVES = 300
COMMANDS = {
    "cancel": "SELECT rota.cancel_run(%s)",
    "retry": "SELECT rota.retry_run(%s)",
    "delete": "SELECT rota.delete_run(%s)",
    "handle": "SELECT rota.handle_run(%s)",
    "reopen": "SELECT rota.reopen_run(%s)",
    "why": "SELECT count(*) FROM rota.why_run(%s)",
    "state": "SELECT coalesce(rota.run_state(%s), 'there is no run')",
    "many": "SELECT refusal FROM rota.act_on_runs('cancel', ARRAY[%s])",
}


class Mover:
    """Cancels and retries one run, over and over, in a thread of its own."""

    def __init__(self, conn: psycopg.Connection[Any], run: int) -> None:
        self._conn = conn
        self._run = run
        self.refusals = list[str]()
        self._thread = threading.Thread(target=self._move)

    def __enter__(self) -> Mover:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    @property
    def is_moving(self) -> bool:
        return self._thread.is_alive()

    def _move(self) -> None:
        for n in range(MOVES):
            verb = "retry_run" if n % 2 else "cancel_run"
            try:
                self._conn.execute(f"SELECT rota.{verb}(%s)".encode(), [self._run])
            except psycopg.Error as error:
                self.refusals.append(str(error))


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"delete"}))
def test_a_command_always_finds_it(name: str, engine: Engine, connect: Connect) -> None:
    run = engine.enqueue()
    answers = list[str]()
    with Mover(connect(), run) as mover:
        while mover.is_moving:
            try:
                answers.append(str(engine.one(COMMANDS[name], run)))
            except psycopg.Error as error:
                answers.append(str(error))
    answers += mover.refusals
    assert [one for one in answers if "there is no run" in one] == []


def test_a_delete_always_finds_it(engine: Engine, connect: Connect) -> None:
    """It waits for its turn, and then there is nothing to be found by anybody."""
    conn = connect(autocommit=False)
    run = engine.enqueue()
    answers = list[str]()
    with Mover(connect(), run) as mover:
        while mover.is_moving:
            try:
                conn.execute(COMMANDS["delete"], [run])
            except psycopg.Error as error:
                answers.append(str(error))
            conn.rollback()
    assert [one for one in answers if "there is no run" in one] == []


READERS: dict[str, Callable[[rota.App, int], object]] = {
    "get": lambda app, run: app.runs.sync.get(run),
    "documents": lambda app, run: app.runs.sync.documents(run),
    "details": lambda app, run: app.runs.sync.details(run),
    "attempts": lambda app, run: app.runs.sync.attempts(run),
    "logs": lambda app, run: app.logs.sync.show(run),
    "wait": lambda app, run: _wait(app, run),
}


def _wait(app: rota.App, run: int) -> None:
    with suppress(rota.WaitTimeout):
        app.runs.sync.wait(run, timeout=0.001)


@pytest.mark.parametrize("name", READERS)
def test_a_reader_always_finds_it(
    app: rota.App, engine: Engine, connect: Connect, name: str
) -> None:
    run = engine.enqueue()
    missing = list[RotaError]()
    with Mover(connect(), run) as mover:
        while mover.is_moving:
            try:
                READERS[name](app, run)
            except RunNotFound as error:
                missing.append(error)
    assert missing == []

"""docs/reference/faces.md is what the code says, and what a face does not have it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
import typer.main
from pydantic import ValidationError

import rota
from rota.api.schemas.runs import NewRun
from rota.cli.program import program
from rota.jobs import schedule_options
from tests.docs import faces_table
from tests.docs.faces_table import RUN_FACES, RUN_OPTIONS

_AT = datetime(2030, 1, 2, tzinfo=UTC)
# A value of each option, and what the run has then.
_GIVEN: dict[str, tuple[Any, str, Any]] = {
    "payload": ({"n": 5}, "payload", {"n": 5}),
    "queue": ("mail", "queue", "mail"),
    "priority": (1, "priority", 1),
    "delay": (3600, "state", "scheduled"),
    "run_at": (_AT, "run_at", _AT),
    "expires_at": (_AT, "expires_at", _AT),
    "expires_in": (60, "expires_at", "later"),
    "key": ("k", "key", "k"),
    "tenant": ("acme", "tenant", "acme"),
    "max_attempts": (9, "max_attempts", 9),
    "tags": (["a"], "tags", ["a"]),
    "metadata": ({"a": 1}, "metadata", {"a": 1}),
}


def missing(face: str) -> list[str]:
    find = RUN_FACES[face][1]
    return [one for one in RUN_OPTIONS if find(one) is None]


def test_the_page_is_what_the_code_says() -> None:
    told = "run `.venv/bin/python -m tests.docs.faces_table` and look at the difference"
    assert faces_table.PAGE.read_text(encoding="utf-8") == faces_table.page(), told


def test_a_declaration_refuses_what_it_does_not_have() -> None:
    app = rota.App(embedded=False)
    assert missing("`@app.job`")
    for option in missing("`@app.job`"):
        arguments: Any = {option: 1}
        with pytest.raises(rota.JobError, match=f"unknown job option {option}"):
            app.job(**arguments)(lambda: None)


def test_so_do_enqueues_and_schedules() -> None:
    assert missing("`job.options`") == missing("`app.runs.enqueue`") == []
    for option in set(missing("`app.schedule`")) - {"tenant", "run_at"}:
        unknown: Any = {option: 1}
        with pytest.raises(rota.TimingError, match=f"unknown schedule option {option}"):
            schedule_options.columns(unknown)


def test_so_do_the_api_and_the_command_line() -> None:
    for option in missing("`POST /runs`"):
        with pytest.raises(ValidationError, match="Extra inputs"):
            NewRun.model_validate({"job": "work", option: 1})
    command: Any = typer.main.get_command(program())
    for option in missing("`rota runs enqueue`"):
        arguments = ["runs", "enqueue", "work", f"--{option}", "1"]
        with pytest.raises(Exception, match="No such option"):
            command.main(arguments, standalone_mode=False)


def test_so_does_sql(conn: psycopg.Connection[Any]) -> None:
    for option in missing("`rota.enqueue` (SQL)"):
        with pytest.raises(psycopg.errors.UndefinedFunction):
            conn.execute(f"SELECT rota.enqueue('work', {option} => NULL)".encode())


async def test_what_a_face_has_reaches_the_run(app: rota.App) -> None:
    @app.job
    async def work(n: int = 1) -> None: ...

    for option, (value, field, expected) in _GIVEN.items():
        given: Any = {} if option == "payload" else {option: value}
        payload: Any = value if option == "payload" else None
        runs = [await work.options(**given).enqueue(**(payload or {}))]
        runs.append(await app.runs.enqueue("work", payload, **(given | _second(option))))
        for run in runs:
            info = await run.info()
            found = getattr(info, field)
            if expected == "later":
                assert found == info.run_at + timedelta(seconds=value), option
            else:
                assert found == expected, option


def _second(option: str) -> dict[str, Any]:
    return {"on_conflict": "return"} if option == "key" else {}

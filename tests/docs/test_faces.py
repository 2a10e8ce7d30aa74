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
from tests.docs.faces_data import (
    LIMIT_FACES,
    LIMIT_OPTIONS,
    RUN_FACES,
    RUN_OPTIONS,
    SCHEDULE_FACES,
    SCHEDULE_OPTIONS,
    Face,
)

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


def missing(
    face: str, faces: dict[str, Face] = RUN_FACES, options: list[str] = RUN_OPTIONS
) -> list[str]:
    find = faces[face][1]
    return [one for one in options if find(one) is None]


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


def test_a_schedule_is_refused_what_its_face_does_not_have(conn: psycopg.Connection[Any]) -> None:
    def lacking(face: str) -> list[str]:
        return missing(face, SCHEDULE_FACES, SCHEDULE_OPTIONS)

    assert lacking("`app.schedules.create`") == lacking("`POST /schedules`") == []
    assert lacking("`rota schedules create`") == []
    for option in set(lacking("`rota.cron` … in `@app.job`")) - {"job"}:
        unknown: Any = {option: "x"}
        with pytest.raises(rota.JobError, match=f"unknown schedule option {option}"):
            rota.cron("@daily", **unknown)
    for option in lacking("`app.schedule`"):
        with pytest.raises(rota.TimingError, match=f"unknown schedule option {option}"):
            schedule_options.columns({option: "x"})  # type: ignore[misc]
    for option in lacking("`rota.schedules` (SQL)"):
        with pytest.raises(psycopg.errors.UndefinedColumn):
            conn.execute(f"UPDATE rota.schedules SET {option} = NULL".encode())


def test_so_is_a_limit() -> None:
    for kind, given in (
        (rota.concurrency, {"cap": 1}), (rota.rate, {"cap": 1, "per": 1}), (rota.sequence, {})
    ):  # fmt: skip
        lacking = missing(f"`rota.{kind.__name__}`", LIMIT_FACES, LIMIT_OPTIONS)
        assert "queue" in lacking
        for option in lacking:
            arguments: Any = {**given, option: 1}
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                kind(**arguments)
    for face in ("`app.limits.set`", "`PUT /limits/{name}`", "`rota limits set`"):
        assert missing(face, LIMIT_FACES, LIMIT_OPTIONS) == []


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

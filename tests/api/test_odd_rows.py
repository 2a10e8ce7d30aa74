"""One odd row, whatever is in which of its columns, breaks no list of any face.

The matrix comes from the catalogue: every table whose rows a face shows, every column, every odd
value of its kind, written by somebody who has put the constraints aside. A usual run tries a
third of the values of each column, by turns; a deep one tries all.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import httpx
import psycopg
import pytest
from psycopg import sql

import rota
from rota.api import create_api
from tests.odd_values import Column, columns, odd_writes
from tests.odd_world import SHOWN_BY, fill, put_constraints_aside

TOKEN = "a token for tests"


@pytest.fixture
async def client(app: rota.App, make_app: Any) -> AsyncIterator[httpx.AsyncClient]:
    served = make_app(**{"server.token": TOKEN})
    transport = httpx.ASGITransport(create_api(served))
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://rota.test/api/v1", headers=headers
    ) as client:
        yield client


@contextmanager
def put_back(conn: psycopg.Connection[Any], table: str) -> Iterator[None]:
    """The rows of a table as they were, whatever was written to them."""
    names = sql.SQL(", ").join(
        sql.Identifier(name)
        for (name,) in conn.execute(
            "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
            " AND NOT attisdropped AND attgenerated = '' ORDER BY attnum",
            [f"rota.{table}"],
        )
    )
    given = {"table": sql.Identifier(table), "names": names}
    conn.execute(
        sql.SQL("CREATE TEMP TABLE was AS SELECT {names} FROM rota.{table}").format(**given)
    )
    try:
        yield
    finally:
        conn.execute(sql.SQL("DELETE FROM rota.{table}").format(**given))
        conn.execute(
            sql.SQL(
                "INSERT INTO rota.{table} ({names}) OVERRIDING SYSTEM VALUE SELECT * FROM was"
            ).format(**given)
        )
        conn.execute("DROP TABLE was")


def written(conn: psycopg.Connection[Any], write: sql.Composed) -> bool:
    try:
        conn.execute(write)
    except psycopg.Error:
        return False
    return True


def test_there_is_a_row_to_try_in_every_table(conn: psycopg.Connection[Any]) -> None:
    fill(conn)
    for table in SHOWN_BY:
        query = sql.SQL("SELECT count(*) FROM rota.{}").format(sql.Identifier(table))
        assert conn.execute(query).fetchone() != (0,), f"no row to try in {table}"


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.deep)])
@pytest.mark.parametrize("table", SHOWN_BY)
async def test_no_odd_value_breaks_an_answer(
    conn: psycopg.Connection[Any], client: httpx.AsyncClient, table: str, step: int
) -> None:
    fill(conn)
    put_constraints_aside(conn)
    broken: list[str] = []
    for number, column in enumerate(columns(conn, table)):
        with put_back(conn, table):
            for write in islice(odd_writes(column), number % step, None, step):
                if written(conn, write):
                    broken += await _broken(client, column, write.as_string(conn))
    assert not broken, f"{len(broken)}:\n" + "\n".join(broken[:40])


async def _broken(client: httpx.AsyncClient, column: Column, write: str) -> list[str]:
    found = []
    for path in SHOWN_BY[column.table]:
        try:
            answer = await client.get(path)
            json.loads(answer.text, parse_constant=_refuse)
            said = "" if _is_fine(answer) else answer.text[:200]
        except Exception as error:
            said = repr(error)[:300]
        if said:
            found.append(f"{write[:90]} → {path}: {said}")
    return found


def _is_fine(answer: httpx.Response) -> bool:
    """What is about the odd one alone may say that it cannot be followed."""
    if answer.url.path.endswith("/preview") and answer.status_code == 422:
        return bool(answer.json()["code"] == "timing_error")
    return answer.status_code in (200, 404)


def _refuse(name: str) -> None:
    raise ValueError(f"JSON has no {name}")

"""A default payload fits its job wherever it is said."""

from __future__ import annotations

from datetime import date
from typing import Any

import psycopg
import pytest

import rota

Connection = psycopg.Connection[tuple[Any, ...]]


def declare(app: rota.App) -> None:
    @app.job
    async def work(n: int, day: date | None = None) -> None: ...


BAD: list[dict[str, Any]] = [{"n": "x"}, {}, {"n": 1, "colour": "red"}, {"n": [1]}]


@pytest.mark.parametrize("payload", BAD)
async def test_the_process_that_declares_it(app: rota.App, payload: dict[str, Any]) -> None:
    declare(app)
    with pytest.raises(rota.PayloadError, match=r'job "work": .*argument'):
        await app.jobs.update("work", default_payload=payload)
    with pytest.raises(rota.PayloadError, match=r'job "work": .*argument'):
        app.jobs.sync.update("work", payload=payload)
    found = await app.jobs.update("work", default_payload={"n": 1, "day": date(2026, 1, 2)})
    assert found.default_payload == {"n": 1, "day": "2026-01-02"}
    assert (await app.jobs.update("work", default_payload=None)).default_payload is None


@pytest.mark.parametrize("payload", BAD)
async def test_another_process(make_app: Any, payload: dict[str, Any]) -> None:
    first: rota.App = make_app()
    declare(first)
    await first.database.open()
    other: rota.App = make_app()
    with pytest.raises(rota.PayloadError, match=r'"work": its default payload is not valid: .*arg'):
        await other.jobs.update("work", default_payload=payload, priority=1)
    found = await other.jobs.get("work")
    assert (found.default_payload, found.priority) == (None, 5)
    assert (await other.jobs.update("work", payload={"n": 7})).default_payload == {"n": 7}
    run = await other.runs.enqueue("work")
    assert (await run.info()).payload == {"n": 7}


async def test_plain_sql(app: rota.App, conn: Connection) -> None:
    declare(app)
    await app.database.open()
    with pytest.raises(psycopg.Error, match="argument n has the wrong type") as caught:
        conn.execute("""UPDATE rota.jobs SET default_payload = '{"n": "x"}' WHERE name = 'work'""")
    assert caught.value.sqlstate == "RO018"
    conn.execute("""UPDATE rota.jobs SET default_payload = '{"n": 1}' WHERE name = 'work'""")
    conn.execute("UPDATE rota.jobs SET default_payload = NULL WHERE name = 'work'")
    conn.execute("""INSERT INTO rota.jobs (name, default_payload) VALUES ('unknown', '{"a": 1}')""")


async def test_what_a_newer_code_no_longer_takes_stays(make_app: Any, conn: Connection) -> None:
    first: rota.App = make_app()
    declare(first)
    await first.jobs.update("work", default_payload={"n": 1})
    await first.close()
    second: rota.App = make_app()

    @second.job
    async def work(name: str) -> None: ...

    found = await second.jobs.get("work")
    assert found.default_payload == {"n": 1}
    conn.execute("UPDATE rota.jobs SET priority = 1, default_payload = default_payload")
    await second.jobs.update("work", default_payload={"name": "a"})

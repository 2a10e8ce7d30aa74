"""All data of a tenant as one archive, sent while it is written."""

from __future__ import annotations

import asyncio
import io
import json
import tarfile
from typing import Any

import httpx
import psycopg
import pytest

import rota
from rota.operations.tenants.stream import ArchiveStream
from rota.postgres.tenants.export import PARTS
from tests.api.conftest import problem

Connection = psycopg.Connection[tuple[Any, ...]]


def read(content: bytes) -> dict[str, list[Any]]:
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        found = {one.name: archive.extractfile(one) for one in archive.getmembers()}
        return {
            name.removesuffix(".jsonl"): [json.loads(line) for line in lines]
            for name, lines in found.items()
            if lines is not None and name.endswith(".jsonl")
        }


async def audited(app: rota.App) -> list[tuple[str, Any]]:
    entries = await app.audit.list(action="tenant.exported")
    return [(one.actor, one.after) for one in entries]


async def test_the_archive(api: httpx.AsyncClient, shop: rota.App) -> None:
    for name in ("acme", "blue"):
        await shop.tenants.set(name, weight=2)
        await shop.tenant(name).runs.enqueue("send", {"user_id": 1})
    answer = await api.get("/api/v1/tenants/acme/export")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/gzip"
    assert answer.headers["content-disposition"].startswith('attachment; filename="acme.tar.gz"')
    found = read(answer.content)
    assert set(found) == set(PARTS)
    assert [one["tenant"] for one in found["open_runs"]] == ["acme"]
    ((actor, told),) = await audited(shop)
    assert actor == "api:admin"
    assert told["is_complete"]
    assert told["rows"]["open_runs"] == 1
    assert told["bytes"] == len(answer.content)


async def test_odd_names(api: httpx.AsyncClient, shop: rota.App) -> None:
    await shop.tenants.set('Zoë "x"', weight=2)
    answer = await api.get("/api/v1/tenants/Zo%C3%AB%20%22x%22/export")
    assert answer.headers["content-disposition"] == (
        "attachment; filename=\"Zo___x_.tar.gz\"; filename*=UTF-8''Zo%C3%AB%20%22x%22.tar.gz"
    )
    assert len(read(answer.content)["settings"]) == 1


async def test_refusals(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient, shop: rota.App
) -> None:
    problem(await api.get("/api/v1/tenants/none/export"), 404, "tenant_not_found")
    problem(await api.get(f"/api/v1/tenants/{'x' * 201}/export"), 422, "invalid")
    await shop.tenants.set("acme", weight=2)
    problem(await api.get("/api/v1/tenants/acme/export?to=x"), 422, "unknown_parameter")
    problem(await stranger.get("/api/v1/tenants/acme/export"), 401, "unauthorized")
    assert await audited(shop) == []


async def test_only_so_many_at_once(api: httpx.AsyncClient, shop: rota.App) -> None:
    await shop.tenants.set("acme", weight=2)
    state = api._transport.app.state.rota  # type: ignore[attr-defined]
    state.exports.most = 0
    problem(await api.get("/api/v1/tenants/acme/export"), 503, "too_many_streams")


@pytest.fixture
def large(shop: rota.App, conn: Connection) -> rota.App:
    """More than waits between the thread that writes and whoever reads."""
    shop.tenants.sync.set("acme", weight=2)
    conn.execute(
        "SELECT rota.emit_many('order.paid', array_agg(jsonb_build_object('text', t.text)),"
        " array_agg('acme'::text)) FROM generate_series(1, 400) n, LATERAL (SELECT string_agg("
        "md5(n::text || i::text), '') AS text FROM generate_series(1, 100) i) t"
    )
    return shop


async def test_whoever_stops_reading_ends_it(large: rota.App) -> None:
    await large.database.open()
    archive = ArchiveStream(large.database, "acme", "ada")
    source = archive.chunks()
    first = await anext(source)
    await source.aclose()
    assert archive.work is not None
    await asyncio.wait([archive.work])
    ((actor, told),) = await audited(large)
    assert actor == "ada"
    assert not told["is_complete"]
    assert told["bytes"] >= len(first)


async def test_an_error_breaks_it_off(large: rota.App, conn: Connection) -> None:
    source = await large.tenants.stream("acme")
    chunks = [await anext(source)]
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name LIKE '%export%'"
    )
    with pytest.raises(rota.DatabaseError):
        chunks += [chunk async for chunk in source]
    with pytest.raises((EOFError, tarfile.ReadError)):
        read(b"".join(chunks))
    ((_, told),) = await audited(large)
    assert not told["is_complete"]

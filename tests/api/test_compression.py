"""Answers of the API, compressed for whoever takes them so."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from rota.api.compression import Compressed

GZIP = {"Accept-Encoding": "gzip"}


async def test_json_is_compressed(api: httpx.AsyncClient) -> None:
    packed = await api.get("/api/openapi.json", headers=GZIP)
    plain = await api.get("/api/openapi.json", headers={"Accept-Encoding": "identity"})

    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


async def test_what_is_small_is_sent_as_it_is(api: httpx.AsyncClient) -> None:
    response = await api.get("/api/v1/runs", headers=GZIP)

    assert "content-encoding" not in response.headers
    assert response.headers["vary"] == "Accept-Encoding"
    assert response.json()["items"] == []


@pytest.mark.parametrize(
    ("kind", "pieces"),
    [("text/event-stream", 3), ("text/event-stream", 1), ("text/plain", 3), ("image/png", 1)],
)
async def test_streams_and_files_are_left_alone(kind: str, pieces: int) -> None:
    """Every piece goes out when it comes, and as it is."""
    sent: list[dict[str, Any]] = []

    async def source(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", kind.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(pieces):
            more = number < pieces - 1
            await send({"type": "http.response.body", "body": b"x" * 5000, "more_body": more})
            assert len(sent) == number + 2

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"accept-encoding", b"gzip")]}
    await Compressed(source)(scope, None, send)  # type: ignore[arg-type]
    assert b"".join(one["body"] for one in sent[1:]) == b"x" * 5000 * pieces
    assert b"content-encoding" not in dict(sent[0]["headers"])


async def test_an_answer_that_is_kept_for_a_repeated_request_can_be_read_by_all(
    api: httpx.AsyncClient,
) -> None:
    body = {"job": "clean", "payload": {"days": 7, "note": "x" * 2000}}
    first = await api.post("/api/v1/runs", json=body, headers={"Idempotency-Key": "one", **GZIP})
    again = await api.post(
        "/api/v1/runs", json=body, headers={"Idempotency-Key": "one", "Accept-Encoding": "br"}
    )

    assert first.status_code == again.status_code, first.text
    assert json.loads(first.text) == again.json()

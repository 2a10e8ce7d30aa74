"""Who gets in, and how errors look before any route is reached."""

from __future__ import annotations

import httpx
import pytest

from tests.api.conftest import problem


async def test_health_and_ready_are_open(stranger: httpx.AsyncClient) -> None:
    for path in ("/health", "/ready"):
        response = await stranger.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    "path",
    ["/api/v1/runs", "/api/openapi.json", "/metrics", "/nowhere", "/", "/health/", "//health"],
)
async def test_nothing_else_answers_without_the_token(
    stranger: httpx.AsyncClient, path: str
) -> None:
    response = await stranger.get(path)
    problem(response, 401, "unauthorized")
    assert response.headers["www-authenticate"].startswith("Bearer")


async def test_unknown_paths_and_methods_are_problems_too(api: httpx.AsyncClient) -> None:
    problem(await api.get("/nowhere"), 404, "no_such_path")
    problem(await api.get("/api/v1/runs/abc"), 404, "no_such_path")
    response = await api.put("/api/v1/runs")
    problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET, POST"
    assert (await api.get("/api/openapi.json")).json()["openapi"] == "3.1.0"


@pytest.mark.parametrize(
    "path", ["/api/v1/runs", "/api/v1/nothing", "/health", "/api/openapi.json"]
)
async def test_responses_are_not_guessed_at_or_kept(
    api: httpx.AsyncClient, stranger: httpx.AsyncClient, path: str
) -> None:
    """Refusals neither."""
    asked = [
        await api.get(path), await stranger.get(path), await api.post(path, content=b"{"),
        await api.get(f"{path}?x=%zz"), await api.post("/hooks/nobody", content=b"{}"),
    ]  # fmt: skip
    for answer in asked:
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"

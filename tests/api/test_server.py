"""`rota server` and `rota dev` as processes."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rota.testing import eventually_sync
from tests.api.programs import TOKEN, Served, here, serve
from tests.cli.conftest import Cli

__all__ = ["here", "serve"]


def test_it_serves_whoever_has_the_token_and_ends_in_order(
    serve: Callable[..., Served], here: Path, conn: psycopg.Connection[Any]
) -> None:
    (here / "token").write_text(f"{TOKEN}\n")
    server = serve(
        "server", "--port", "0", "--token-file", "token", ROTA_SERVER_BODY_BYTES="1024"
    )  # fmt: skip
    with httpx.Client(base_url=server.url, timeout=60) as client:
        assert client.get("/ready").json() == {"status": "ok"}
        assert client.get("/api/v1/runs").status_code == 401
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        assert client.get("/api/v1/runs").json()["items"] == []
        # Also of a body whose length nobody has announced.
        json = {"Content-Type": "application/json"}
        large = client.post("/api/v1/runs", content=iter([b" " * 100] * 100), headers=json)
        assert (large.status_code, large.json()["code"]) == (413, "body_too_large")
        # It never works or ticks: nobody has registered.
        assert conn.execute("SELECT count(*) FROM rota.workers").fetchone() == (0,)
        (run,) = conn.execute("SELECT rota.enqueue('rota.prune_runs')").fetchone() or (0,)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(httpx.get, f"{server.url}/api/v1/runs/{run}?wait_seconds=60",
                                  headers=dict(client.headers), timeout=60)  # fmt: skip
            _end(server, client)
            assert waiting.result().json()["state"] == "queued"
    assert TOKEN not in server.output


def test_strangers_lock_nobody_out(serve: Callable[..., Served]) -> None:
    """Over a real socket from this machine, whose word uvicorn believes unless told otherwise."""
    server = serve("server", "--port", "0", ROTA_SERVER_TOKEN=TOKEN)
    jobs = f"{server.url}/api/v1/jobs"
    with httpx.Client(timeout=60) as client:
        codes = [
            client.get(jobs, headers={"X-Forwarded-For": f"192.0.2.{number}"}).status_code
            for number in range(60)
        ]
        assert set(codes) == {401, 429}
        assert client.get(jobs, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def _end(server: Served, client: httpx.Client) -> None:
    """With somebody at each stream. Whoever is cut off because the time to end in has passed hears
    of an error; whose stream is ended, does not."""
    with (
        client.stream("GET", "/api/v1/stream") as events,
        client.stream("GET", "/api/v1/logs/tail") as lines,
    ):
        heard = [stream.iter_lines() for stream in (events, lines)]
        assert [next(one) for one in heard] == [": connected", ": connected"]
        assert server.stop() == 0
        for one in heard:
            assert not [line for line in one if line.startswith("event")]


class TestRefusals:
    @pytest.fixture
    def rota(
        self, here: Path, database_url: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
    ) -> Cli:
        monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
        return Cli(capsys, monkeypatch)

    def test_without_a_token_it_does_not_start(self, rota: Cli) -> None:
        result = rota("server", "--port", "0")
        assert result.code == 2
        assert "no admin token" in result.err
        assert "rota server --new-token" in result.err

    def test_it_makes_tokens(self, rota: Cli) -> None:
        first, second = (rota.done("server", "--new-token").out.strip() for _ in range(2))
        assert len(first) >= 40
        assert first != second

    def test_a_short_token_is_refused_and_not_shown(self, rota: Cli, here: Path) -> None:
        (here / "token").write_text("hunter2")
        result = rota("server", "--token-file", "token")
        assert result.code == 2
        assert "at least 16" in result.err
        assert "hunter2" not in result.err

    def test_a_missing_file_is_told(self, rota: Cli) -> None:
        result = rota("server", "--token-file", "nowhere")
        assert result.code == 2
        assert "cannot read the token" in result.err

    def test_a_taken_port_is_told(self, rota: Cli, here: Path) -> None:
        (here / "token").write_text(TOKEN)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            result = rota("server", "--token-file", "token", "--port", port)
        assert result.code == 2
        assert f"cannot listen on 127.0.0.1, port {port}" in result.err


def test_dev_has_a_token_for_each_start(serve: Callable[..., Served], here: Path) -> None:
    """Other users of the machine reach the same port, and do not know it."""
    (here / "jobs.py").write_text("import rota\napp = rota.App()\n@app.job\ndef hello(): ...\n")
    dev = serve("dev", "jobs.py", "--no-reload")
    eventually_sync(lambda: "?token=" in dev.output, 30)
    kept = here / ".rota" / "token"
    token = kept.read_text().strip()
    assert kept.stat().st_mode & 0o777 == 0o600
    jobs = f"{dev.url}/api/v1/jobs"
    for headers in ({}, {"Host": "localhost"}, {"Authorization": "Bearer wrong"}):
        assert httpx.get(jobs, headers=headers).status_code == 401
    known = httpx.get(jobs, headers={"Authorization": f"Bearer {token}"})
    assert [one["name"] for one in known.json()["items"]] == ["hello"]

    with httpx.Client(base_url=dev.url) as browser:
        assert browser.get("/runs").headers["location"].startswith("/sign-in")
        link = re.search(r"http://\S+token=\S+", dev.output)
        assert link is not None
        followed = browser.get(f"{link[0]}&state=failed".replace("/?", "/runs?"))
        assert (followed.status_code, followed.headers["location"]) == (303, "/runs?state=failed")
        assert browser.get("/runs").status_code == 200
        elsewhere = browser.get(f"{dev.url}//evil.example/?token={token}")
        assert elsewhere.headers["location"] == "/"
    with httpx.Client(base_url=dev.url) as stranger:
        stranger.get("/runs?token=wrong")
        assert stranger.get("/runs").headers["location"].startswith("/sign-in")
    assert dev.stop() == 0


def test_a_link_signs_in_nowhere_else(serve: Callable[..., Served], here: Path) -> None:
    """Addresses stay in histories and logs; the token of `rota server` stays valid."""
    (here / "token").write_text(TOKEN)
    server = serve("server", "--token-file", "token")
    answer = httpx.get(f"{server.url}/runs?token={TOKEN}")
    assert answer.headers["location"].startswith("/sign-in")
    assert "set-cookie" not in answer.headers


def test_answers_are_not_held_back_by_nagle() -> None:
    from rota.api.serve import listen

    with listen("127.0.0.1", 0) as bound:
        assert bound.proto == socket.IPPROTO_TCP

"""The API keeps to its own description, whatever is sent to it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rota
from rota.api.state import RequestScope
from tests.api.conftest import TOKEN
from tests.api.serving import served
from tests.conftest import load_config
from tests.depth import examples

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait_seconds` goes up to 60, and no run here ever ends."""
    wait = RequestScope.until_ended
    monkeypatch.setattr(RequestScope, "until_ended", lambda at, run, _: wait(at, run, 0.01))


@pytest.fixture
def shop(_briefly: None, database_url: str) -> rota.App:
    """What the examples of the description speak of, as far as it can be there beforehand."""
    settings = {"server.token": TOKEN, "server.failures_per_second": 1e6}
    app = rota.App(config=load_config(database_url, settings))

    @app.job(queue="mail")
    async def send_welcome(user_id: int) -> None: ...

    @app.job(events=["order.paid"])
    async def send_digest(user_id: int = 0) -> None: ...

    calls = [send_welcome.call(user_id=number) for number in range(50)]
    app.enqueue_many_sync(calls)
    app.schedules.sync.create("digest", "send_digest", cron="0 8 * * 1-5")
    return app


@pytest.mark.deep
@pytest.mark.timeout(900)  # on a busy machine; a quiet one needs a minute
def test_schemathesis_finds_nothing(shop: rota.App, tmp_path: Path) -> None:
    with served(shop) as url:
        done = subprocess.run(
            [
                str(Path(sys.executable).with_name("st")),
                "--config-file", str(CONFIG),
                "run", f"{url}/api/openapi.json",
                "--header", f"Authorization: Bearer {TOKEN}",
                # They answer for ever.
                "--exclude-path", "/api/v1/stream", "--exclude-path", "/api/v1/logs/tail",
                "--max-examples", str(examples(usual=3, deep=30)), "--no-color", "--no-shrink",
            ],
            cwd=tmp_path, env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True, text=True, check=False, timeout=880,
        )  # fmt: skip
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    found = re.search(r"(\d+) generated", done.stdout)
    assert found, done.stdout
    print(found[0])
    assert int(found[1]) > 1000, done.stdout

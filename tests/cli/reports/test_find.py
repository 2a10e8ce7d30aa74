"""`rota find`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("mail", queue="letters")
    return engine


def test_by_id_key_and_name(cli: Cli, engine: Engine) -> None:
    run = engine.enqueue("mail", key="order-17")
    for text in (str(run), "order-17"):
        (found,) = cli.done("find", text, "--json").json
        assert (found["kind"], found["name"], found["state"]) == ("run", str(run), "queued")
    out = cli.done("find", "MAI").out
    assert "job" in out
    assert "letters" in out


def test_nothing(cli: Cli, engine: Engine) -> None:
    result = cli.done("find", "nobody")
    assert result.out == ""
    assert "nothing found for 'nobody'" in result.err
    assert cli.done("find", "nobody", "--json").json == []

from __future__ import annotations

import psycopg
import pytest

import rota
from tests.cli.conftest import Cli


@pytest.fixture
def opened(app: rota.App) -> rota.App:
    assert app.database.url
    return app


def test_a_dry_run_and_a_run(cli: Cli, opened: rota.App) -> None:
    with opened.database.connection_sync() as conn:
        conn.execute("SELECT rota.ensure_partitions(rota.now() - interval '90 days', rota.now())")
    told = cli.done("retention", "run", "--dry-run")
    assert "would remove" in told.out
    assert cli.done("retention", "run", "--dry-run", "--json").json["is_dry_run"] is True
    assert "removed about" in cli.done("retention", "run", "--hurry").out
    assert cli.done("retention", "run").err == "nothing has expired\n"


def test_another_pass_and_wrong_use(cli: Cli, opened: rota.App, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("LOCK TABLE rota.pruning_runs IN EXCLUSIVE MODE")
        result = cli("retention", "run")
    assert result.code == 1
    assert "already running" in result.err
    assert cli("retention", "run", "--when").code == 2


def test_a_new_policy_says_whom_it_reaches(cli: Cli, opened: rota.App) -> None:
    with opened.database.connection_sync() as conn:
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('work')")
    changed = cli.done("jobs", "update", "work", "--retention", "days=90")
    assert changed.out == 'job "work" updated\n'
    assert "end from now on" in " ".join(cli.done("jobs", "update", "--help").out.split())

"""`rota errors`, and runs by what went wrong."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.testing import run_due_sync
from tests.cli.conftest import Cli


@pytest.fixture
def shop(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job(max_attempts=1)
    async def call(order: int) -> None:
        raise ConnectionError(f"order {order} was refused")

    @app.job(max_attempts=1)
    async def read() -> None:
        raise LookupError("no page")

    assert app.database.url
    return app


@pytest.fixture
def group(shop: rota.App) -> str:
    for order in range(2):
        shop.runs.sync.enqueue("call", {"order": order})
    run_due_sync(shop)
    (found,) = shop.errors.sync.list()
    return found.id


def test_list_show_and_json(cli: Cli, group: str) -> None:
    listed = cli.done("errors", "list", "--since", "1h", "--order", "most")
    assert group in listed.out
    assert "ConnectionError: order 1 was refused" in listed.out
    assert "1 new; 2 failures" in listed.err
    assert cli.done("errors", "list", "--standing", "handled,quiet").err == "no errors match\n"
    (row,) = cli.done("errors", "list", "--json").json
    assert (row["id"], row["failures"]) == (group, 2)
    shown = cli.done("errors", "show", group)
    assert "in call" in shown.out
    assert "raise ConnectionError" in shown.out
    assert cli.done("errors", "show", group, "--json").json["looked_at"] == 2


def test_nothing_has_failed(cli: Cli, shop: rota.App) -> None:
    assert cli.done("errors", "list").err == "nothing has failed\n"


def test_runs_are_found_by_what_went_wrong(cli: Cli, group: str) -> None:
    for flags in (
        ["--error", "was refused"], ["--error", "ConnectionError"], ["--group", group], ["--dead"],
        ["--no-handled"], ["--ended-since", "1h"],
    ):  # fmt: skip
        assert len(cli.done("runs", "list", "--json", *flags).json) == 2, flags
    (run,) = cli.done("runs", "list", "--json", "--payload-field", "order:1").json
    assert run["payload"] == {"order": 1}
    assert cli.done("runs", "list", "--json", "--ended-until", "1h").json == []
    assert cli.done("runs", "list", "--json", "--worker", "999").json == []
    assert cli("runs", "list", "--payload-field", "odd").code == 2
    assert cli("runs", "list", "--ended-since", "odd").code == 2


def test_runs_are_handled_and_reopened(cli: Cli, group: str) -> None:
    (run, _) = cli.done("runs", "list", "--dead", "--json").json
    assert cli.done("runs", "handle", run["id"], "--reason", "refunded").out.endswith("handled\n")
    assert cli("runs", "handle", run["id"]).code == 1
    assert len(cli.done("runs", "list", "--handled", "--json").json) == 1
    cli.done("runs", "reopen", run["id"])
    assert cli("runs", "reopen", run["id"]).code == 1
    assert cli("runs", "handle", 999).code == 1


def test_all_of_a_group_are_retried(cli: Cli, group: str) -> None:
    said = cli.done("runs", "retry", "--group", group, "--yes", "--json")
    assert said.json["done"] == 2
    left = cli.done("runs", "list", "--group", group, "--json").json
    assert [run["state"] for run in left] == ["queued", "queued"]


def test_pages(cli: Cli, shop: rota.App) -> None:
    shop.runs.sync.enqueue("call", {"order": 1})
    shop.runs.sync.enqueue("read")
    run_due_sync(shop)
    first = cli.done("errors", "list", "--limit", 1, "--json")
    assert first.err.startswith("1 shown; next page: --after ")
    rest = cli.done("errors", "list", "--after", first.err.split()[-1], "--json")
    types = {one["error_type"] for one in [*first.json, *rest.json]}
    assert types == {"ConnectionError", "LookupError"}
    assert len(rest.json) == 1

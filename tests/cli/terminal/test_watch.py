from __future__ import annotations

import json

import pytest

from rota.cli.terminal.watch import spell_out
from tests.cli.conftest import Cli
from tests.proxy import Proxy


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Two of them; then somebody presses Ctrl-C. The waits are kept."""
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("rota.cli.terminal.watch.sleep", wait)
    return waits


def test_the_seconds_may_be_left_out() -> None:
    assert spell_out(["runs", "list", "--watch"]) == ["runs", "list", "--watch=2"]
    assert spell_out(["--watch", "5", "--json"]) == ["--watch", "5", "--json"]
    assert spell_out(["--watch", "--json"]) == ["--watch=2", "--json"]
    assert spell_out(["--watch", "500ms"]) == ["--watch", "500ms"]


def test_with_json_one_line_a_round(cli: Cli, rounds: list[float]) -> None:
    result = cli.done("workers", "list", "--watch", "3", "--json")
    assert [json.loads(line) for line in result.out.splitlines()] == [[], []]
    assert rounds == [3.0, 3.0]


def test_into_a_pipe_one_answer_follows_the_other(cli: Cli, rounds: list[float]) -> None:
    cli.done("queues", "pause", "mail")
    result = cli.done("queues", "list", "--watch")
    assert result.out.count("OLDEST") == 2
    assert "\x1b" not in result.out
    assert rounds == [2.0, 2.0]


def test_a_wrong_interval_asks_nothing(bare_cli: Cli) -> None:
    assert bare_cli("workers", "list", "--watch=0").code == 2
    assert bare_cli("workers", "list", "--watch=soon").code == 2


def test_an_error_ends_it(cli: Cli, rounds: list[float]) -> None:
    assert cli("calendars", "show", "nowhere", "--watch").code == 1
    assert rounds == []


def test_a_database_that_comes_back_is_waited_for(
    cli: Cli, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            proxy.refuse()
            proxy.reset()
        elif len(waits) == 2:
            proxy.heal()
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr("rota.cli.terminal.watch.sleep", wait)
    result = cli.done("workers", "list", "--watch", "--json")
    assert result.out == "[]\n[]\n"
    assert "retrying" in result.err

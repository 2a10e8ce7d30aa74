"""Short fixed plans of faults against real workers; `script/chaos` plays random ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from rota.embedded import EmbeddedPostgres
from tests.chaos.faults.base import Fault
from tests.chaos.plans import PLANS, RESTARTS
from tests.chaos.runner import play
from tests.chaos.stage import Stage
from tests.database import tcp_url

pytestmark = [pytest.mark.chaos, pytest.mark.deep, pytest.mark.timeout(600)]

Plan = Sequence[Callable[[], Fault]]
Play = Callable[..., list[str]]


@pytest.fixture
def play_on() -> Iterator[Play]:
    stages: list[Stage] = []

    def start(url: str, plan: Plan, server: EmbeddedPostgres | None = None) -> list[str]:
        stages.append(Stage(url, seed=1, say=print, server=server))
        return play(stages[0], (make() for make in plan))

    yield start
    for stage in stages:
        stage.close()


@pytest.mark.parametrize("name", PLANS)
def test_books_balance(database_url: str, play_on: Play, name: str) -> None:
    assert play_on(database_url, PLANS[name]) == []


@pytest.mark.distribution
def test_books_balance_on_the_distributions_server(database_url: str, play_on: Play) -> None:
    assert play_on(database_url, PLANS["database"]) == []


def test_books_balance_after_restarts(own_server: EmbeddedPostgres, play_on: Play) -> None:
    assert play_on(tcp_url(own_server), RESTARTS, own_server) == []

"""What a job declares about bursts of events, and what operators make of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota

Connection = psycopg.Connection[tuple[Any, ...]]


def declare(app: rota.App) -> None:
    @app.job(events=["order.*"], event_delivery=rota.debounce(5, longest=60, key="{order_id}"))
    async def sync(order_id: int) -> None: ...


async def test_the_rule_follows_the_code_until_somebody_changes_it(app: rota.App) -> None:
    declare(app)
    await app.emit("nobody.cares")
    said = {"debounce_seconds": 5, "longest_seconds": 60, "key": "{order_id}"}
    assert (await app.jobs.get("sync")).event_delivery == said
    await app.jobs.update("sync", event_delivery=rota.throttle(timedelta(minutes=1)))
    declare(app)
    await app.emit("nobody.cares")
    assert (await app.jobs.get("sync")).event_delivery == {"throttle_seconds": 60}
    await app.jobs.update("sync", event_delivery=None)
    assert (await app.jobs.get("sync")).event_delivery is None
    found = await app.jobs.update("sync", reset=["event_delivery"])
    assert found.event_delivery == said


async def test_a_burst_is_one_run(app: rota.App) -> None:
    declare(app)
    first = await app.emit("order.made", {"order_id": 7})
    again = await app.emit("order.paid", {"order_id": 7})
    assert [run.id for run in first] == [run.id for run in again]
    assert again[0].is_duplicate
    told = await app.events.list(outcome="debounced")
    assert [one.told[0].word for one in told] == [f"debounced into run {first[0].id}"] * 2


async def test_what_is_throttled_says_until_when(app: rota.App) -> None:
    @app.job(events=["order.*"], event_delivery={"throttle_seconds": 3600})
    async def sync() -> None: ...

    (run,) = await app.emit("order.made")
    await app.emit("order.made")
    (found,) = await app.events.list(outcome="throttled")
    word = found.told[0].word
    assert word.startswith("throttled until 2")
    assert word.endswith(f" UTC: run {run.id} covers this period")


@pytest.mark.parametrize(
    "make",
    [
        lambda: rota.debounce(0),
        lambda: rota.debounce(5, longest=4),
        lambda: rota.debounce(5, key="{"),
        lambda: rota.throttle(-1),
        lambda: rota.throttle(5, key=""),
        lambda: rota.App().job(event_delivery=5)(declare),
        lambda: rota.App().job(event_delivery={"throttle_seconds": 1, "burst": 2})(declare),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(make: Any) -> None:
    with pytest.raises(rota.JobError, match="event_delivery"):
        make()


async def test_an_operator_is_told_what_is_wrong(app: rota.App) -> None:
    declare(app)
    await app.emit("nobody.cares")
    for rule in ({"key": "a"}, {"debounce_seconds": "soon"}, {"throttle_seconds": 5, "key": 7}, 5):
        with pytest.raises(rota.JobError, match="event_delivery"):
            await app.jobs.update("sync", event_delivery=rule)  # type: ignore[arg-type]

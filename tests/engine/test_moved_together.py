"""A next time that is set in the transaction that lets a schedule go on: its run comes, in any
order and way. The instant that `now()` names is the one at which the stop ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

import rota
from tests.scheduling import Schedules
from tests.sql_engine import Engine

# What stops a schedule, or nothing; what lets it go on, as columns of one UPDATE; as a call.
PAIRS = {
    "enable": (
        "SELECT rota.disable_schedule('s')",
        "is_enabled = true",
        "SELECT rota.enable_schedule('s')",
    ),
    "set enabled": (
        "UPDATE rota.schedules SET is_enabled = false WHERE name = 's'",
        "is_enabled = true",
        "SELECT rota.set_schedule_enabled('s', true)",
    ),
    "resume": (
        "SELECT rota.pause_schedule('s')",
        "paused_at = NULL, paused_by = NULL, paused_until = NULL, pause_reason = NULL",
        "SELECT rota.resume_schedule('s')",
    ),
    "resume and catch up": (
        "SELECT rota.pause_schedule('s', until => rota.now() + interval '1 day')",
        "paused_at = NULL, paused_by = NULL, paused_until = NULL, pause_reason = NULL",
        "SELECT rota.resume_schedule('s', catch_up => true)",
    ),
    "end of the pause": (
        "SELECT rota.pause_schedule('s')",
        "paused_until = rota.now()",
        "UPDATE rota.schedules SET paused_until = rota.now() WHERE name = 's'",
    ),
    "edit of the timing": (
        "SELECT 1",
        "cron = '0 0 2 1 *'",
        "UPDATE rota.schedules SET cron = '0 0 2 1 *' WHERE name = 's'",
    ),
    "edit of the start": (
        "SELECT 1",
        "start_at = rota.now() - interval '1 day'",
        "UPDATE rota.schedules SET start_at = rota.now() - interval '1 day' WHERE name = 's'",
    ),
    "edit of the payload": (
        "SELECT 1",
        """payload = '{"n": 1}'""",
        """UPDATE rota.schedules SET payload = '{"n": 1}' WHERE name = 's'""",
    ),
    "enable and another timing": (
        "SELECT rota.disable_schedule('s')",
        "is_enabled = true, interval_seconds = 86400, cron = NULL",
        "UPDATE rota.schedules SET is_enabled = true, timezone = 'Europe/Paris' WHERE name = 's'",
    ),
}
MOVES = [
    "UPDATE rota.schedules SET next_run_at = now() WHERE name = 's'",
    "SELECT rota.reschedule('s', now())",
    "SELECT rota.reschedule('s', now() - interval '20 seconds')",
    "SELECT rota.reschedule('s', rota.now())",
]


@pytest.fixture
async def schedules(app: rota.App, engine: Engine) -> Schedules:
    """Once a year by the real clock, as users say now() and not rota.now()."""
    engine.job("work")
    await app.database.open()
    found = Schedules(engine, app.database)
    engine.one("SELECT rota.set_clock(NULL)")
    found.add(cron="0 0 1 1 *")
    await found.tick()
    return found


def say(schedules: Schedules, *statements: str, name: str = "s") -> None:
    """In one transaction, with time between its statements."""
    with schedules.engine.conn.transaction():
        for statement in statements:
            schedules.engine.conn.execute(statement.replace("'s'", f"'{name}'"))
            schedules.engine.conn.execute("SELECT pg_sleep(0.002)")


def moved(schedules: Schedules, name: str) -> tuple[list[tuple[str, int]], int]:
    """What was decided about times that were set, and how many runs there are."""
    told = [(row["decision"], row["count"]) for row in schedules.ledger(name) if row["is_moved"]]
    return told, len(schedules.runs(name))


async def has_run(schedules: Schedules) -> bool:
    await schedules.tick()
    return moved(schedules, "s") == ([("ran", 1)], 1)


# By what is said, in the transaction after the one that stops it.
def ways(columns: str, call: str) -> Iterator[list[str]]:
    for at in ("now()", "rota.now()", "now() - interval '20 seconds'"):
        yield [f"UPDATE rota.schedules SET {columns}, next_run_at = {at} WHERE name = 's'"]
    update = f"UPDATE rota.schedules SET {columns} WHERE name = 's'"
    for goes_on, move in product((update, call), MOVES):
        yield [move, goes_on]
        yield [goes_on, move]


@pytest.mark.parametrize("pair", PAIRS)
async def test_it_runs_if_one_statement_or_one_transaction_says_both(
    schedules: Schedules, pair: str
) -> None:
    stop, columns, call = PAIRS[pair]
    said = {f"s{number}": one for number, one in enumerate(ways(columns, call))}
    for name in said:
        schedules.add(name, cron="0 0 1 1 *")
    await schedules.tick()
    for name, statements in said.items():
        say(schedules, stop, name=name)
        say(schedules, *statements, name=name)
    await schedules.tick()
    wrong = {name: found for name in said if (found := moved(schedules, name)) != ([("ran", 1)], 1)}
    assert {tuple(said[name]): found for name, found in wrong.items()} == {}


async def test_it_runs_if_the_stop_is_in_the_transaction_too(schedules: Schedules) -> None:
    say(schedules, PAIRS["enable"][0], MOVES[0], PAIRS["enable"][2])
    assert await has_run(schedules)


@pytest.mark.parametrize("stop", ["is_enabled", "paused_at"])
async def test_an_inserted_one_runs(schedules: Schedules, stop: str) -> None:
    """Also where it is made stopped, and goes on in the same transaction."""
    is_enabled = stop != "is_enabled"
    say(
        schedules,
        "DELETE FROM rota.schedules WHERE name = 's'",
        f"""INSERT INTO rota.schedules (name, job, cron, next_run_at, is_enabled, paused_at)
            VALUES ('s', 'work', '0 0 1 1 *', now(), {is_enabled},
                    {"rota.now()" if is_enabled else "NULL"})""",
        "UPDATE rota.schedules SET is_enabled = true, paused_at = NULL WHERE name = 's'",
    )
    assert await has_run(schedules)


async def test_one_that_is_inserted_for_now_runs(schedules: Schedules) -> None:
    say(
        schedules,
        "DELETE FROM rota.schedules WHERE name = 's'",
        """INSERT INTO rota.schedules (name, job, cron, next_run_at)
           VALUES ('s', 'work', '0 0 1 1 *', now())""",
    )
    assert await has_run(schedules)


async def test_one_that_is_over_runs_again(schedules: Schedules) -> None:
    schedules.update(cron=None, run_at="2020-01-01 00:00Z", catch_up="none")
    await schedules.tick()
    assert schedules.row()["finished_at"] is not None
    say(
        schedules,
        "UPDATE rota.schedules SET next_run_at = now(), description = 'again' WHERE name = 's'",
    )
    assert await has_run(schedules)


async def test_a_later_transaction_does_not_save_what_came_in_the_stop(
    schedules: Schedules,
) -> None:
    say(schedules, PAIRS["enable"][0], MOVES[0])
    say(schedules, PAIRS["enable"][2])
    await schedules.tick()
    assert schedules.words() == [("skipped", "disabled", 1)]
    assert schedules.runs() == []

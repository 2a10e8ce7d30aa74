"""What Python refuses before anything is sent, as SQL does."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import rota
from rota.errors import InputError, PayloadError, ResultError, TimingError
from rota.jobs.encoding import encode_result

LATE = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(timedelta(hours=-14)))
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job
    async def keep(value: Any = None) -> Any:
        return value

    return app


@pytest.mark.parametrize("at", [LATE, EARLY])
@pytest.mark.parametrize("option", ["run_at", "expires_at"])
async def test_an_instant_outside_the_years_is_refused(
    jobs: rota.App, option: str, at: datetime
) -> None:
    said = rf"{option} .* is not in the years 1 to 9999 \(0001-01-02 to 9999-12-30, UTC\)"
    with pytest.raises(InputError, match=said):
        await jobs.runs.enqueue("keep", **{option: at})


@pytest.mark.parametrize("value", [_deep(500), 10**400, -(10**400)], ids=["deep", "large", "low"])
async def test_a_payload_that_no_reader_holds_is_refused(jobs: rota.App, value: Any) -> None:
    @jobs.job
    async def other(value: Any) -> None: ...

    with pytest.raises(PayloadError, match="argument value cannot be stored as JSON"):
        await other.enqueue(value)
    with pytest.raises(InputError, match="metadata cannot be stored as JSON"):
        await jobs.runs.enqueue("keep", metadata={"value": value})


@pytest.mark.parametrize("value", [10**400, -(10**400), [10**400]])
def test_a_result_that_no_reader_holds_is_refused(value: Any) -> None:
    with pytest.raises(ResultError, match="the result cannot be stored as JSON: the number"):
        encode_result(value, 1_000_000)
    for held in (2**63, -(2**63), 10**300, True, 7):
        assert encode_result(held, 1_000_000) == json.dumps(held).encode()


async def test_what_readers_hold_comes_back(jobs: rota.App) -> None:
    for value in (_deep(90), 10**300, 1e20, "9" * 400):
        run = await jobs.runs.enqueue("keep", {"value": value})
        assert (await jobs.runs.get(run.id)).payload == {"value": value}


@pytest.mark.parametrize(
    "given",
    [
        {"at": LATE},
        {"cron": "0 3 * * *", "start_at": LATE},
        {"cron": "0 3 * * *", "end_at": EARLY},
        {"every": 1e300},
        {"cron": "0 3 * * *", "jitter": float("nan")},
        {"cron": "0 3 * * *", "grace": 1e300},
        {"cron": "0 3 * * *", "timeout": 1e300},
    ],
)
async def test_a_schedule_with_an_odd_value_is_refused(
    jobs: rota.App, given: dict[str, Any]
) -> None:
    with pytest.raises(TimingError):
        await jobs.schedules.create("odd", "keep", **given)


async def test_a_pause_or_a_move_beyond_all_time_is_refused(jobs: rota.App) -> None:
    await jobs.schedules.create("nightly", "keep", cron="0 3 * * *")
    for until in (timedelta.max, LATE, datetime.max.replace(tzinfo=UTC)):
        with pytest.raises(TimingError, match="years 1 to 9999"):
            await jobs.schedules.pause("nightly", until=until)
        with pytest.raises(TimingError, match="years 1 to 9999"):
            await jobs.schedules.reschedule("nightly", until)

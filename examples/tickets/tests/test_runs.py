"""Runs: each test has its own database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from tickets.jobs import lapse, reserve, send_ticket

import rota
from rota.testing import Clock, TestWorker, assert_enqueued


async def test_what_is_due_is_run(rota_app: rota.App, rota_worker: TestWorker) -> None:
    run = await send_ticket.enqueue(seat="12A")
    (ended,) = await rota_worker.run_all()
    assert (ended.id, ended.state, ended.result) == (run.id, "succeeded", "ticket for 12A")


def test_the_same_without_an_event_loop(rota_app: rota.App, rota_worker: TestWorker) -> None:
    send_ticket.enqueue_sync(seat="13Z")
    (ended,) = rota_worker.run_all_sync()
    assert ended.state == "cancelled"
    assert ended.end_reason == "cancelled by its handler: there is no such seat"


def test_a_reservation_lapses(
    rota_app: rota.App, rota_worker: TestWorker, rota_clock: Clock, rota_database_url: str
) -> None:
    with psycopg.connect(rota_database_url) as conn:
        conn.execute("INSERT INTO tickets VALUES ('12A', false)")
    reserve.enqueue_sync(seat="12A")
    rota_worker.run_all_sync()
    assert_enqueued(rota_app, lapse, key="12A", state="scheduled", count=1)
    rota_clock.advance(timedelta(minutes=16))
    (ended,) = rota_worker.run_all_sync()
    assert ended.result == 1


def test_the_report_is_sent_in_the_morning(
    rota_app: rota.App, rota_worker: TestWorker, rota_clock: Clock
) -> None:
    rota_clock.set(datetime(2031, 7, 1, 5, 0, tzinfo=UTC))
    rota_worker.run_all_sync()  # catches up what was missed until then
    rota_clock.advance(timedelta(hours=2))
    (run,) = rota_worker.tick_sync()
    assert run.scheduled_for == datetime(2031, 7, 1, 6, 0, tzinfo=UTC)


def test_a_worker_beside_the_test(rota_app: rota.App, rota_worker: TestWorker) -> None:
    with rota_worker:
        run = send_ticket.enqueue_sync(seat="1A")
        assert run.wait_sync(timeout=30) == "ticket for 1A"


@pytest.mark.parametrize("seat", ["1A", "2A"])
def test_no_test_sees_the_runs_of_another(rota_app: rota.App, seat: str) -> None:
    send_ticket.enqueue_sync(seat=seat)
    assert_enqueued(rota_app, send_ticket, count=1)

"""Seats are reserved and sold, and tickets are sent. Unpaid reservations lapse."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

import rota

app = rota.App()


@app.job(queue="mail", max_attempts=3)
async def send_ticket(ctx: rota.Context, seat: str) -> str:
    ctx.log.info("sending", seat=seat)
    if seat == "13Z":
        raise rota.Cancel("there is no such seat")
    return f"ticket for {seat}"


@app.job
async def reserve(seat: str) -> None:
    """Lets the reservation lapse after 15 minutes."""
    await lapse.options(delay=timedelta(minutes=15), key=seat).enqueue(seat=seat)


@app.job
async def lapse(ctx: rota.Context, seat: str) -> int:
    async with ctx.transaction() as conn:
        free = await conn.execute("DELETE FROM tickets WHERE seat = %s AND NOT is_paid", [seat])
        return free.rowcount


@app.job(schedules=[rota.cron("0 8 * * *", timezone="Europe/Berlin")])
def daily_report() -> str:
    return "sent"


def sell(connection: psycopg.Connection[Any], seat: str) -> None:
    """The ticket is sent if, and only if, the sale is committed."""
    connection.execute("INSERT INTO tickets (seat, is_paid) VALUES (%s, true)", [seat])
    send_ticket.options(connection=connection).enqueue_sync(seat=seat)

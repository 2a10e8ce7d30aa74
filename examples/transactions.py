"""Enqueue in your own transaction: the run exists if, and only if, your rows do.

Conversely, the writes of the handler commit together with the completion of its run.
"""

from __future__ import annotations

import asyncio

import psycopg

import rota

app = rota.App()


@app.job
async def confirm(ctx: rota.Context, booking: int) -> None:
    async with ctx.transaction() as conn:  # commits when this function returns
        await conn.execute("UPDATE bookings SET is_confirmed = true WHERE id = %s", [booking])


async def book(conn: psycopg.AsyncConnection, seat: str) -> rota.Run:
    async with conn.transaction():
        cursor = await conn.execute("INSERT INTO bookings (seat) VALUES (%s) RETURNING id", [seat])
        (booking,) = await cursor.fetchone() or (0,)
        return await confirm.options(connection=conn).enqueue(booking)


async def main() -> None:
    async with app, app.worker(), await psycopg.AsyncConnection.connect(app.database.url) as conn:
        await conn.execute(
            "CREATE TABLE IF NOT EXISTS bookings (id bigint GENERATED ALWAYS AS IDENTITY, "
            "seat text UNIQUE, is_confirmed boolean NOT NULL DEFAULT false)"
        )
        await conn.execute("TRUNCATE bookings")
        await conn.commit()
        run = await book(conn, "12A")
        await run.wait(timeout=30)
        try:
            await book(conn, "12A")
        except psycopg.errors.UniqueViolation:
            print("12A is taken: no booking, and no run either")
        cursor = await conn.execute("SELECT seat, is_confirmed FROM bookings")
        print(await cursor.fetchall())


if __name__ == "__main__":
    asyncio.run(main())

"""Handlers are called as plain functions, without a database."""

from __future__ import annotations

import pytest
from tickets.jobs import daily_report, send_ticket

import rota
from rota.testing import context


async def test_a_handler_is_called_with_a_context() -> None:
    ctx = context(send_ticket, attempt=2)
    assert await send_ticket(ctx, seat="12A") == "ticket for 12A"
    assert [(line.message, line.fields) for line in ctx.lines] == [("sending", {"seat": "12A"})]


async def test_a_seat_that_is_not_there_is_no_error() -> None:
    with pytest.raises(rota.Cancel):
        await send_ticket(context(), seat="13Z")


def test_a_handler_without_a_context_is_called_as_it_is() -> None:
    assert daily_report() == "sent"

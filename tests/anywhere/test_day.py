"""The day of work on the server of this run, whichever that is, and on the distribution's."""

from __future__ import annotations

import pytest

from tests.anywhere.day import a_day_of_work


@pytest.mark.both_servers
async def test_a_day_of_work(database_url: str) -> None:
    await a_day_of_work(database_url)

"""An application on the database of a test."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from rota.app import App
from rota.postgres import testing
from rota.postgres.plans import limited

_RESET_SECONDS = 30.0


@contextmanager
def on_database(app: App, url: str) -> Iterator[App]:
    """Within the block, the application uses this database, which must have the schema of this
    release, whatever is configured. Its jobs and schedules are registered there on first use.
    Nothing else may use the application meanwhile."""
    before = app.config
    sources = {**before.sources, "database_url": "argument", "database.direct_url": "argument"}
    there = replace(
        before,
        database_url=url,
        database=replace(before.database, direct_url=None),
        sources=sources,
    )
    app._use(there)
    was_for_tests, app.database.is_for_tests = app.database.is_for_tests, True
    try:
        yield app
    finally:
        app._use(before)
        app.database.is_for_tests = was_for_tests


def reset(app: App) -> None:
    """Empty the application's database: delete runs, history, jobs, schedules and operators'
    settings, also those of other applications, and reset the clock. What the code declares is
    registered again on the next use. Only for tests."""
    app.database.run_sync(limited(testing.reset(), _RESET_SECONDS))
    app._use(app.config)

"""Shell completion of names: from the current database, or none if it is unreachable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import typer

from rota.cli.tenants.whose import whole_name

if TYPE_CHECKING:
    from rota.app import App

_MOST = 200


def _complete(ask: Callable[..., list[str]]) -> Callable[[typer.Context, str], list[str]]:
    def names(ctx: typer.Context, incomplete: str) -> list[str]:
        from rota.cli.session import administer

        try:
            with administer(ctx) as app:
                found = ask(app)
        # A shell that waits for completions cannot use an error.
        except Exception:
            return []
        # A shell shows and inserts names as they are: offer only printable ones.
        good = [name for name in found if name.startswith(incomplete) and name.isprintable()]
        return good[:_MOST]

    return names


def _schedules(app: App) -> list[str]:
    """Return names as lists print them."""
    found = app.schedules.sync.page(limit=10_000).items
    return [whole_name(schedule.tenant, schedule.name) for schedule in found]


def one_of(words: Sequence[str]) -> Callable[[str], list[str]]:
    """Complete values that are known in advance."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


job_names = _complete(lambda app: [job.name for job in app.jobs.sync.list()])
queue_names = _complete(lambda app: [queue.name for queue in app.queues.sync.list()])
schedule_names = _complete(lambda app: _schedules(app))
subject_names = _complete(
    lambda app: sorted(
        {
            *_schedules(app),
            *(job.name for job in app.jobs.sync.list()),
            *(queue.name for queue in app.queues.sync.list()),
        }
    )
)
tenant_names = _complete(lambda app: [it.name for it in app.tenants.sync.page(limit=1000).items])
limit_names = _complete(
    lambda app: [whole_name(limit.tenant, limit.name) for limit in app.limits.sync.list()]
)
calendar_names = _complete(lambda app: [calendar.name for calendar in app.calendars.sync.list()])
cleanup_names = _complete(lambda app: [rule.name for rule in app.cleanup.sync.list()])
template_names = _complete(lambda app: [it.name for it in app.templates.sync.list()])

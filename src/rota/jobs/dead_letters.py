"""`@app.on_dead_letter`: a job that runs once for every run that has failed permanently.

The end of such a run emits the event `rota.dead_letter` in its own transaction, so that no worker
has to be live to report it. The handler is an ordinary job: it is retried, logged and shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from rota.errors import JobError
from rota.jobs.context import Context
from rota.jobs.decorator import BoundJob, Job, JobDecorator
from rota.jobs.on import on
from rota.model.hook import DeadLetter

EVENT = "rota.dead_letter"
LetterFunction = (
    Callable[[Context, DeadLetter], Awaitable[None]] | Callable[[Context, DeadLetter], None]
)
LetterJob = Job[[DeadLetter], None]


def declare(
    decorate: JobDecorator,
    function: LetterFunction,
    jobs: Iterable[BoundJob[..., Any] | str],
    arguments: dict[str, Any],
) -> LetterJob:
    names = [job.name if isinstance(job, BoundJob) else job for job in jobs]
    where = {"letter": {"job": {"in": names}}} if names else None
    given = {"name": f"on_dead_letter.{getattr(function, '__name__', 'function')}"} | arguments
    if "events" in given:
        raise JobError("on_dead_letter binds its job to the event itself: events is not for it")
    declared: Any = decorate(**given, events=[on(EVENT, where=where)])
    made: LetterJob = declared(function)
    if made.definition.schema.names != ("letter",):
        raise JobError(
            "on_dead_letter needs a function of (ctx: rota.Context, letter: rota.DeadLetter)",
            hint=f"{made.name} takes {', '.join(made.definition.schema.names) or 'nothing'}",
        )
    return made

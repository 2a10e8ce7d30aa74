"""Names from other task queues: the AttributeError names Rota's equivalent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

# Attributes of a job.
OF_JOB = {
    "delay": "await job.enqueue(…), or job.enqueue_sync(…) without await; to delay it:"
    " job.options(delay=60).enqueue(…)",
    "apply_async": "job.options(…).enqueue(…), with options such as delay, queue, priority and key",
    "apply": "job(…) to call the function directly, or job.enqueue(…) to enqueue a run",
    "send": "job.enqueue(…), or job.enqueue_sync(…) without await",
    "send_with_options": "job.options(…).enqueue(…)",
    "defer": "job.enqueue(…), or job.enqueue_sync(…) without await",
    "defer_async": "await job.enqueue(…)",
    "configure": "job.options(…)",
    "s": "job.call(…), which app.enqueue_many takes",
    "signature": "job.call(…), which app.enqueue_many takes",
    "schedule": "app.schedule(name, job, cron=…), or job.options(delay=60).enqueue(…)",
    "trigger": "job.enqueue(…)",
    "run": "job(…) to call the function directly, or job.enqueue(…) to enqueue a run",
}
# Attributes of an application.
OF_APP = {
    "task": "@app.job",
    "actor": "@app.job",
    "send_task": "await app.runs.enqueue(name, payload)",
    "enqueue": "await job.enqueue(…), or by the job's name: await app.runs.enqueue(name, payload)",
    "defer": "await job.enqueue(…), or by the job's name: await app.runs.enqueue(name, payload)",
    "send": "await job.enqueue(…), or an event: await app.emit(name, payload)",
    "trigger": "await app.schedules.trigger(name), or await app.runs.enqueue(job, payload)",
    "cron": "app.schedule(name, job, cron=…)",
    "periodic_task": "@app.job(schedules=[rota.every(60)])",
    "add_periodic_task": "app.schedule(name, job, every=60)",
    "run_worker": "async with app.worker(): …, or the command `rota worker`",
    "worker_main": "the command `rota worker`",
    "start": "async with app.worker(): …, or the command `rota worker`",
}
# Attributes of `app.jobs`.
OF_JOBS = {
    "trigger": "await app.runs.enqueue(job, payload), or await app.schedules.trigger(name)",
    "enqueue": "await app.runs.enqueue(job, payload)",
    "run": "await app.runs.enqueue(job, payload)",
    "cancel": "await app.runs.cancel(run_id)",
    "retry": "await app.runs.retry(run_id)",
    "pause": "await app.jobs.disable(name)",
    "resume": "await app.jobs.enable(name)",
    "register": "await app.jobs.sync_definitions()",
}


def refuse(owner: Any, name: str, words: Mapping[str, str], called: str) -> NoReturn:
    """Raise an AttributeError that names Rota's equivalent, if there is one."""
    advice = f"; use {words[name]}" if name in words else ""
    raise AttributeError(f"{called} has no attribute {name!r}{advice}", name=name, obj=owner)

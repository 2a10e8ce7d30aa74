"""An installation to look at: something in every state, once in everyday words and once in the
worst that are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import rota
from rota.testing import run_due

SCRIPT = "<script>window.stolen=1</script><img src=x onerror='window.stolen=1'>"
_ARABIC = "\u202eمهمة التقارير اليومية\u202c"


@dataclass(frozen=True, slots=True)
class Words:
    """What people call things."""

    job: str
    queue: str
    schedule: str
    tenant: str
    key: str
    tags: tuple[str, ...]
    error: str
    payload: dict[str, Any]


PLAIN = Words(
    job="send_mail",
    queue="mail",
    schedule="digest",
    tenant="acme",
    key="order-17",
    tags=("mail", "weekly"),
    error="550 no such user",
    payload={"data": {"to": "ada@example.org", "order": 9007199254740993, "price": 0.1}},
)
HOSTILE = Words(
    job=(SCRIPT + _ARABIC + "a_very_long_name" * 20)[:200],
    queue=(SCRIPT + _ARABIC + "queue" * 20)[:100],
    schedule=("../%2e%2e/" + SCRIPT + _ARABIC + "schedule" * 20)[:200],
    tenant=f"'\"><b>{_ARABIC}<b>",
    key="javascript:alert(1)//" + "k" * 170,
    tags=(SCRIPT[:60], _ARABIC, *(f"tag-{n}-{'x' * (n % 30)}" for n in range(48))),
    error=f"{SCRIPT}\n{_ARABIC}\n" + "no space in it" * 100,
    payload={"data": {SCRIPT: [_ARABIC, SCRIPT], "long": "x" * 20_000, "deep": [[{"a": ["b"]}]]}},
)


@dataclass(frozen=True, slots=True)
class World:
    """Where its things are: runs by their state, and parts of addresses by name."""

    words: Words
    runs: dict[str, int]
    parts: dict[str, str]

    def path(self, path: str) -> str:
        """`/queues/{queue}` and `/runs/{failed}`, filled in."""
        names = {
            "job": self.words.job, "queue": self.words.queue, "schedule": self.words.schedule,
            "tenant": self.words.tenant,
        }  # fmt: skip
        numbers = {state: str(run) for state, run in self.runs.items()}
        known = names | numbers | self.parts
        return path.format_map({key: quote(it, safe="") for key, it in known.items()})


def declare(app: rota.App, words: Words) -> None:
    @app.job(
        name=words.job,
        queue=words.queue,
        tags=list(words.tags),
        max_attempts=1,
        description=words.error,
        payload=words.payload,
    )
    async def work(
        ctx: rota.Context, data: dict[str, Any] | None = None, fails: bool = False
    ) -> dict[str, Any]:
        for level in ("debug", "info", "warning", "error"):
            getattr(ctx.log, level)(words.error, **{"key": words.key})
        ctx.progress(0.5, words.error[:200])
        if fails:
            raise RuntimeError(words.error)
        return words.payload

    @app.job(name="nightly_report", queue="reports")
    async def report() -> None: ...


async def fill(app: rota.App, words: Words) -> World:
    options = {"tenant": words.tenant, "tags": list(words.tags)[:5]}
    runs = app.runs
    succeeded = await runs.enqueue(words.job, words.payload, **options)
    failed = await runs.enqueue(words.job, {"fails": True}, key=words.key, **options)
    await runs.enqueue(words.job, {"fails": True})
    await run_due(app)
    cancelled = await runs.enqueue(words.job, words.payload, **options)
    await runs.cancel(cancelled.id, reason=words.error)
    running = await runs.enqueue(words.job, words.payload, priority=0, **options)
    worker = await _claim(app, words)
    queued = await runs.enqueue(words.job, words.payload, **options)
    scheduled = await runs.enqueue(words.job, words.payload, delay=86_400, **options)
    await _schedules(app, words)
    await app.jobs.update(words.job, priority=3, reason=words.error)
    found = {
        "succeeded": succeeded, "failed": failed, "cancelled": cancelled, "running": running,
        "queued": queued, "scheduled": scheduled,
    }  # fmt: skip
    parts = {"worker": str(worker)} | await _parts(app, words)
    return World(words, {state: run.id for state, run in found.items()}, parts)


async def _parts(app: rota.App, words: Words) -> dict[str, str]:
    (line, *_) = (await app.logs.search(limit=1)).lines
    (edit, *_) = (await app.schedules.edits(words.schedule, limit=1)).items
    bulk = await app.bulk.start("retry", job=words.job, states=["failed"], reason=words.error)
    (group, *_) = await app.errors.list(limit=1)
    await app.views.save(words.key[:60], "state=failed")
    event = await app.events.emit("order.lost", words.payload, tenant=words.tenant, key=words.key)
    await app.events.emit("order.found", words.payload)
    table = '"' + words.queue[:60].replace('"', '""') + '"'
    async with app.database.connection() as conn:
        await conn.execute(f"CREATE TABLE public.{table} (id int)".encode())
    watch = await app.watches.add(f"public.{table}", when="new.id > 0", on="insert,update[id]")
    async with app.database.connection() as conn:
        await conn.execute(f"DROP TRIGGER rota_watch_{watch.id}_insert ON public.{table}".encode())
    rule: dict[str, Any] = {"jobs": ["nightly_report"], "cap": 1, "key": "{customer}"}
    await app.limits.set(words.schedule, reason=words.error, **rule)
    async with app.database.connection() as conn:
        await conn.execute("CREATE TABLE IF NOT EXISTS public.sessions (expires_at timestamptz)")
    await app.cleanup.add(
        "sessions", column="expires_at", older_than_seconds=0, name=words.key[:100]
    )
    return {
        "event": str(event.event_id), "watch": str(watch.id),
        "line": str(line.key), "edit": str(edit.id), "bulk": str(bulk.id), "view": words.key[:60],
        "group": group.id, "calendar": words.queue, "limit": words.schedule,
        "cleanup": words.key[:100], "recipe": "stale_session_cleanup",
    }  # fmt: skip


async def _claim(app: rota.App, words: Words) -> int:
    """A worker that has been busy for longer than any test takes."""
    async with app.database.connection() as conn:
        cursor = await conn.execute(
            "SELECT rota.register_worker(%s, %s, 1, '1.4', %s, %s, 8, 1000000)",
            [words.key[:90], "host-1", [words.queue], [words.job]],
        )
        (worker,) = await cursor.fetchone() or (0,)
        await conn.execute(
            "SELECT count(*) FROM rota.claim_runs(%s, 1, %s, 1, %s, '{}')",
            [worker, [words.queue], [words.job]],
        )
    return int(worker)


async def _schedules(app: rota.App, words: Words) -> None:
    await app.calendars.create(words.queue, {"holidays": ["2026-12-25"]})
    create = app.schedules.create
    await create(
        words.schedule, words.job, cron="30 8 * * 1-5", timezone="Europe/Vienna",
        payload=words.payload, tags=list(words.tags)[:10], calendar=words.queue,
    )  # fmt: skip
    await create("hourly", "nightly_report", every=3600)
    await create("paused", words.job, cron="*/5 * * * *", payload=words.payload)
    await app.schedules.pause("paused", words.error)
    await app.schedules.update(words.schedule, description=words.error[:200], reason=words.error)
    await create("off", "nightly_report", cron="0 3 * * *", enabled=False)
    async with app.database.connection() as conn:
        await conn.execute(_LEDGER)


_LEDGER = """
INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule,
                         claimed_at, decided_at, run_id, state, duration_ms)
SELECT s.id, at, at, d.decision, d.reason, s.tenant, s.name, at, at,
       CASE WHEN d.decision IN ('ran', 'caught_up') THEN 1 END, d.state, d.duration
FROM rota.schedules s CROSS JOIN generate_series(1, 30) n
CROSS JOIN LATERAL (SELECT date_trunc('hour', rota.now()) - make_interval(hours => n) AS at)
JOIN (VALUES (0, 'ran', NULL, 'succeeded', 4200), (1, 'ran', NULL, 'failed', 900),
             (2, 'skipped', 'overlap', NULL, NULL), (3, 'missed', 'window', NULL, NULL),
             (4, 'caught_up', NULL, 'succeeded', 4100), (5, 'skipped', 'paused', NULL, NULL))
     AS d (kind, decision, reason, state, duration)
  ON d.kind = CASE WHEN n % 4 = 0 THEN (n / 4) % 6 ELSE 0 END
WHERE NOT s.is_system
"""

"""Whether the books balance: what was promised, what happened, and what was written down."""

from __future__ import annotations

from tests.chaos.at_work import at_work, still
from tests.chaos.stage import Stage

END_SECONDS = 120.0
BACK_SECONDS = 60.0

LATE = "SELECT id, job, state, held_by, attempt, worker FROM rota.open_runs ORDER BY id LIMIT 20"
WORKERS = "SELECT id, pid, state, is_waiting, queues, jobs FROM rota.workers WHERE state = 'live'"
ENDED_BADLY = """
SELECT id, job, state, end_reason FROM rota.runs
WHERE CASE WHEN job = 'poison' THEN end_reason <> 'attempts used up' ELSE state <> 'succeeded' END
ORDER BY id LIMIT 20
"""
EFFECTS = """
SELECT r.id, r.job, r.state, count(e.run)
FROM rota.runs r LEFT JOIN public.effects e ON e.run = r.id
GROUP BY r.id, r.job, r.state HAVING count(e.run) <> CASE WHEN r.job = 'poison' THEN 0 ELSE 1 END
ORDER BY r.id LIMIT 20
"""
STRAY_EFFECTS = """
SELECT run FROM public.effects WHERE run NOT IN (SELECT id FROM rota.runs) LIMIT 20
"""
DOUBLES = """
SELECT payload ->> 'token', array_agg(id) FROM rota.runs
WHERE payload ->> 'token' <> '' GROUP BY 1 HAVING count(*) > 1 LIMIT 20
"""
GAPS = """
SELECT * FROM (
    SELECT l.schedule, lag(l.through_at) OVER times AS before, l.nominal_at AS after
    FROM rota.ledger l WINDOW times AS (PARTITION BY l.schedule_id ORDER BY l.nominal_at)) x
WHERE after <> before + interval '1 s' LIMIT 20
"""
UNPAIRED = """
SELECT l.schedule, l.nominal_at, l.run_id
FROM rota.ledger l LEFT JOIN rota.runs r ON r.id = l.run_id
WHERE (l.run_id IS NULL) <> (r.id IS NULL) OR r.scheduled_for <> l.nominal_at
UNION ALL
SELECT r.schedule, r.scheduled_for, r.id
FROM rota.runs r LEFT JOIN rota.ledger l ON l.run_id = r.id
WHERE r.schedule IS NOT NULL AND l.run_id IS NULL LIMIT 20
"""
UNASKED = """
SELECT schedule, decision, reason, count(*) FROM rota.ledger
WHERE decision NOT IN ('ran', 'caught_up') AND reason NOT IN ('overlap', 'coalesced')
GROUP BY 1, 2, 3
"""


OLD_DEFINITIONS = """
SELECT name, description FROM rota.schedules
WHERE name = 'agreed' AND (description, payload ->> 'currency') IS DISTINCT FROM ('new', 'USD')
UNION ALL SELECT name, description FROM rota.jobs WHERE name = 'pay_by_cheque'
UNION ALL SELECT name, job FROM rota.schedules WHERE 'pay_by_cheque' IN (name, job)
"""


def balance(stage: Stage, claim_seconds: float) -> list[str]:
    """What is wrong; nothing, if the books balance. Ends the workload and the fleet."""
    problems = at_work(stage, claim_seconds)
    stage.say("all faults are over")
    stage.proxy.reset_half_open()
    stage.workload.stop()
    stage.rows("UPDATE rota.schedules SET is_enabled = false WHERE NOT is_system")
    problems += stage.workload.accounts.problems + _promises(stage)
    stage.say("all runs have ended")
    return problems + _records(stage) + _deployed(stage) + stage.fleet.stop()


def _promises(stage: Stage) -> list[str]:
    problems = []
    if late := still(stage, LATE, END_SECONDS):
        workers = stage.rows(WORKERS)
        words = {member.name: member.words for member in stage.fleet.members}
        problems.append(f"not ended after {END_SECONDS:g} s: {late}; {workers}; {words}")
    known = {token for (token,) in stage.rows("SELECT payload ->> 'token' FROM rota.runs")}
    accounts = stage.workload.accounts
    if lost := accounts.committed.keys() - known:
        problems.append(f"committed and not there: {sorted(lost)[:20]}")
    if risen := known & set(accounts.rolled_back):
        problems.append(f"rolled back and there: {sorted(risen)[:20]}")
    return problems


def _deployed(stage: Stage) -> list[str]:
    """The deployment is completed: what the newer release declares is so, whoever came last."""
    for member in [one for one in stage.fleet.members if one.release == "old"]:
        stage.fleet.replace(member, "new")
        member.process.wait_ready(BACK_SECONDS)
    left = still(stage, OLD_DEFINITIONS, BACK_SECONDS)
    return [f"what the older release declared: {left}"] if left else []


def _records(stage: Stage) -> list[str]:
    checks = {
        "ended as they should not": ENDED_BADLY,
        "effects other than once": EFFECTS,
        "effects of no run": STRAY_EFFECTS,
        "enqueued twice": DOUBLES,
        "gaps in the ledger": GAPS,
        "ledger and runs differ": UNPAIRED,
        "decisions that nobody asked for": UNASKED,
    }
    found = {what: stage.rows(query) for what, query in checks.items()}
    return [f"{what}: {rows}" for what, rows in found.items() if rows]

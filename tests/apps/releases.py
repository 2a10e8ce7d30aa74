"""Two releases of one application that differ in everything that code can declare.

Each option has a value of the old release and one of the new. An option that is not in its table
is missing from the tests of deployments, which say so.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import rota

Pair = tuple[Any, Any]
OLD, NEW = 0, 1
_START = datetime(2040, 1, 1, tzinfo=UTC)
_LATER = datetime(2041, 1, 1, tzinfo=UTC)

# Of @app.job. Some exclude each other: they have jobs of their own, by the name after the colon.
JOB: dict[str, Pair] = {
    "queue": ("slow", "fast"),
    "priority": (3, 4),
    "max_attempts": (5, 6),
    "timeout": (10.0, 20.0),
    "backoff": ({"kind": "fixed", "base_seconds": 1}, {"kind": "fixed", "base_seconds": 2}),
    "tags": (["a"], ["b"]),
    "metadata": ({"team": "old"}, {"team": "new"}),
    "executor": ("thread", "process"),
    "description": ("as it was", "as it is"),
    "enabled": (True, False),
    "default_payload": ({"n": 1}, {"n": 2}),
    "schedules": ([rota.every(60, name="decorated")], [rota.every(90, name="decorated")]),
    "log_level": ("info", "warning"),
    "events": (["order.paid"], ["order.sent"]),
    "event_delivery": (rota.debounce(5), rota.debounce(6)),
    "retention": ({"days": 3}, {"days": 4}),
    "limits": (rota.concurrency(2, name="few"), rota.concurrency(3, name="few")),
    "delay": (5.0, 6.0),
    "expires_in": (500.0, 600.0),
    "key": ("a:{n}", "b:{n}"),
    "tenant": ("acme", "globex"),
}
# These stay in the process, or are no setting: the database has no column for them.
NOT_STORED = {
    "name", "payload", "retry_on", "give_up_on", "capture_logs", "upgrade", "aliases",
    "on_failure",
}  # fmt: skip

# Of app.schedule, and of the timings in a decorator.
TIMING: dict[str, Pair] = {
    "cron": ("0 8 * * *", "0 9 * * *"),
    "every": (60, 90),
    "at": (_START, _LATER),
    "init": ("once", "release"),
}
SCHEDULE: dict[str, Pair] = {
    "timezone": ("Europe/Berlin", "Europe/Paris"),
    "gap": ("run_after", "skip"),
    "fold": ("first", "second"),
    "with_seconds": (False, True),
    "every_from": ("start", "end"),
    "start_at": (_START, _LATER),
    "end_at": (_START, _LATER),
    "max_runs": (5, 6),
    "jitter": (1, 2),
    "burst_allowed": (False, True),
    "calendar": (None, "banking"),
    "on_closed": ("skip", "next_day"),
    "catch_up": ("latest", "all"),
    "catch_up_window": (60, 90),
    "catch_up_limit": (5, 6),
    "grace": (60, 90),
    "overlap": ("skip", "allow"),
    "max_concurrent_runs": (1, 2),
    "pause_after_failures": (5, 6),
    "requires": ([], ["by every"]),
    "shadow": (False, True),
    "delete_when_finished": (False, True),
    "payload": ({"n": 1}, {"n": 2}),
    "queue": ("slow", "fast"),
    "priority": (3, 4),
    "max_attempts": (5, 6),
    "timeout": (10, 20),
    "run_tags": (["a"], ["b"]),
    "run_metadata": ({"team": "old"}, {"team": "new"}),
    "description": ("as it was", "as it is"),
    "tags": (["a"], ["b"]),
    "metadata": ({"team": "old"}, {"team": "new"}),
    "enabled": (True, False),
}
# What an option needs beside it.
_WITH: dict[str, dict[str, Any]] = {
    "with_seconds": {"cron": ("0 8 * * *", "0 0 8 * * *")},
    "gap": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    "fold": {"cron": "30 2 * * *", "timezone": "Europe/Berlin"},
    "timezone": {"cron": "0 8 * * *"},
    "calendar": {"cron": "0 8 * * *"},
    "on_closed": {"cron": "0 8 * * *", "calendar": "banking"},
    "catch_up_window": {"every": 60, "catch_up": "all"},
    "catch_up_limit": {"every": 60, "catch_up": "all"},
    "max_concurrent_runs": {"every": 60, "overlap": "allow"},
    "delete_when_finished": {"at": _START},
}
# Of app.queue.
QUEUE: dict[str, Pair] = {"max_waiting": (10, 20), "when_full": ("refuse", "drop_lowest")}
# What Registry.kinds has to say of each: where the tables above declare it.
KINDS = {"schedules": (TIMING, SCHEDULE), "queues": (QUEUE,)}


def declare(app: rota.App, release: int) -> None:
    """All of a release."""
    for option, values in JOB.items():
        _job(app, f"job {option}", {option: values[release]})
    send = _job(app, "send", {})
    for option, values in TIMING.items():
        app.schedule(f"by {option}", send, **{option: values[release]})
    for option, values in SCHEDULE.items():
        given = _of(_WITH.get(option, {"every": 60}), release) | {option: values[release]}
        app.schedule(f"with {option}", send, **given)
        decorated = {key: it for key, it in given.items() if key not in TIMING}
        timing = next(key for key in TIMING if key in given)
        made = {"cron": rota.cron, "every": rota.every, "at": rota.once}[timing]
        timed = made(given[timing], name=f"decorated {option}", **decorated)
        _job(app, f"timed {option}", {"schedules": [timed]})
    app.schedule("of tenants", send, every=(60, 90)[release], tenants=["acme", "globex"])
    for option, values in QUEUE.items():
        app.queue(f"queue {option}", **{"max_waiting": 5, option: values[release]})


def _of(given: dict[str, Any], release: int) -> dict[str, Any]:
    return {key: it[release] if isinstance(it, tuple) else it for key, it in given.items()}


def _job(app: rota.App, name: str, options: dict[str, Any]) -> Any:
    return app.job(name=name, **options)(handler)


def handler(n: int = 1) -> None: ...

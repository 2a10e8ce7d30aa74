"""The arguments of `@app.job()`, and their checks."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, Literal, TypedDict, get_args

from rota.config import Config
from rota.config.sections.shown import Level
from rota.errors import InputError, JobError
from rota.jobs.deliveries import DeclaredDelivery
from rota.jobs.encoding import encode_value
from rota.jobs.hooks import FailureFunction, check_failure_hook
from rota.jobs.job_settings import SHORT_NAMES, job_settings
from rota.jobs.limits import DeclaredLimit
from rota.jobs.on import On, bindings
from rota.jobs.timings import DeclaredSchedule
from rota.jobs.values import check_text, with_short_names
from rota.model.backoff import Backoff
from rota.model.durations import Duration
from rota.model.retention import Retention

ExecutorName = Literal["async", "thread", "process"]
EXECUTORS: tuple[ExecutorName, ...] = get_args(ExecutorName)
ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]
BackoffFunction = Callable[[int], "Duration"]
UpgradeFunction = Callable[[dict[str, Any]], Mapping[str, Any]]


class JobArguments(TypedDict, total=False):
    """Arguments of `@app.job()`, for type checkers."""

    name: str | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    timeout: Duration | None
    backoff: Backoff | Mapping[str, Any] | str | BackoffFunction | None
    retry_on: ErrorTypes | None
    give_up_on: ErrorTypes | None
    tags: list[str] | tuple[str, ...] | None
    metadata: Mapping[str, Any] | None
    executor: ExecutorName | None
    description: str | None
    enabled: bool | None
    default_payload: Mapping[str, Any] | None
    payload: Mapping[str, Any] | None  # a shorter name of default_payload
    schedules: list[DeclaredSchedule] | tuple[DeclaredSchedule, ...] | None
    log_level: Level | None
    capture_logs: bool | None
    events: str | On | list[str | On] | tuple[str | On, ...] | None
    event_delivery: DeclaredDelivery | Mapping[str, Any] | None
    retention: Retention | Mapping[str, Any] | None
    limits: DeclaredLimit | list[DeclaredLimit] | tuple[DeclaredLimit, ...] | None
    delay: Duration | None
    expires_in: Duration | None
    key: str | None
    tenant: str | None
    upgrade: UpgradeFunction | None
    on_failure: FailureFunction | None
    aliases: str | list[str] | tuple[str, ...] | None


class JobKeywords(JobArguments, total=False):
    """`JobArguments`, also by the names of columns and JobInfo."""

    is_enabled: bool | None
    timeout_seconds: Duration | None
    delay_seconds: Duration | None
    expires_in_seconds: Duration | None


def check_arguments(arguments: Mapping[str, Any], place: str, config: Config) -> dict[str, Any]:
    """Return the given arguments by their short names; a JobError names the function at `place`."""
    try:
        named = with_short_names(arguments, OTHER_NAMES)
    except ValueError as error:
        raise JobError(f"{place}: {error}") from None
    for name in named:
        _refuse_unknown(name, place)
    return {
        name: _check_argument(name, value, place, config)
        for name, value in named.items()
        if value is not None
    }


def _refuse_unknown(name: str, place: str) -> None:
    if name in CHECKS:
        return
    problem = f"{place}: unknown job option {name}"
    if name in _OF_ONE_RUN:
        raise JobError(problem, hint=f"it is an option of one run: {_OF_ONE_RUN[name]}")
    if name in _OF_A_SCHEDULE:
        raise JobError(problem, hint=f"a job has schedules: schedules=[{_OF_A_SCHEDULE[name]}]")
    near = get_close_matches(name, CHECKS, 1)
    hint = f"did you mean {near[0]}?" if near else None
    raise JobError(f"{problem}; choose from {', '.join(CHECKS)}", hint=hint)


def _check_argument(name: str, value: Any, place: str, config: Config) -> Any:
    try:
        return CHECKS[name](name, value, config)
    except InputError as error:
        raise error.retold(JobError, f"{place}: ") from None
    except ValueError as error:
        raise JobError(f"{place}: {error}", field=name) from None


def _check_backoff(name: str, value: Any, config: Config) -> Backoff | BackoffFunction:
    if callable(value):
        function: BackoffFunction = value
        return function
    return Backoff.parse(value, config.runs.default_backoff())


def _check_errors(name: str, value: Any, config: Config) -> tuple[type[BaseException], ...]:
    types = tuple(value) if isinstance(value, tuple | list) else (value,)
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError(f"{name} must be exception types, not {kind!r}")
    return types


def _check_upgrade(name: str, value: Any, config: Config) -> UpgradeFunction:
    if not callable(value) or inspect.iscoroutinefunction(value):
        raise ValueError(
            f"{name} must be a function (def) that takes an old payload and returns the new one, "
            f"not {value!r}"
        )
    function: UpgradeFunction = value
    return function


def _check_aliases(name: str, value: Any, config: Config) -> tuple[str, ...]:
    given = (value,) if isinstance(value, str) else value
    if not isinstance(given, list | tuple):
        raise ValueError(f"{name} must be a list of earlier names, not {value!r}")
    return tuple(dict.fromkeys(check_text(f"each of {name}", alias, most=200) for alias in given))


def _check_executor_name(name: str, value: Any, config: Config) -> Any:
    if value not in EXECUTORS:
        raise ValueError(f"{name} must be one of {', '.join(EXECUTORS)}, not {value!r}")
    return value


def _check_metadata(name: str, value: Any, config: Config) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    encode_value(value, name)
    return dict(value)


def _check_enabled(name: str, value: Any, config: Config) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r}")
    return value


def _check_schedules(name: str, value: Any, config: Config) -> tuple[DeclaredSchedule, ...]:
    given = (value,) if isinstance(value, DeclaredSchedule) else tuple(value)
    for schedule in given:
        if not isinstance(schedule, DeclaredSchedule):
            raise ValueError(
                f"{name} must be made with rota.cron, every, once or on_start, not {schedule!r}"
            )
    return given


def _check_limits(name: str, value: Any, config: Config) -> tuple[DeclaredLimit, ...]:
    given = (value,) if isinstance(value, DeclaredLimit) else tuple(value)
    for limit in given:
        if not isinstance(limit, DeclaredLimit):
            raise ValueError(
                f"{name} must be made with rota.concurrency, rate or sequence, not {limit!r}"
            )
    return given


def _as_declared(name: str, value: Any, config: Config) -> Any:
    """Read a setting that operators can change too, by the declaration that both share."""
    declared = job_settings()[SHORT_NAMES.get(name, name)]
    return replace(declared, name=name).read(value)


CHECKS: dict[str, Callable[[str, Any, Config], Any]] = {
    "name": lambda name, value, config: check_text(name, value, most=200),
    "queue": _as_declared,
    "priority": _as_declared,
    "max_attempts": _as_declared,
    "timeout": _as_declared,
    "backoff": _check_backoff,
    "retry_on": _check_errors,
    "give_up_on": _check_errors,
    "tags": lambda name, value, config: tuple(_as_declared(name, value, config)),
    "metadata": _check_metadata,
    "executor": _check_executor_name,
    "description": _as_declared,
    "enabled": _check_enabled,
    "default_payload": _check_metadata,
    "schedules": _check_schedules,
    "log_level": _as_declared,
    "capture_logs": _check_enabled,
    "events": lambda name, value, config: bindings(name, value),
    "event_delivery": _as_declared,
    "retention": lambda name, value, config: Retention.parse(value),
    "limits": _check_limits,
    "delay": _as_declared,
    "expires_in": _as_declared,
    "key": _as_declared,
    "tenant": _as_declared,
    "upgrade": _check_upgrade,
    "on_failure": lambda name, value, config: check_failure_hook(name, value),
    "aliases": _check_aliases,
}
# Options of an enqueue that a declaration does not accept, and their replacements.
_OF_ONE_RUN = {
    "expires_at": "a decorator takes expires_in, the time after which a run that has not started "
    "is cancelled",
    "run_at": "a decorator takes delay",
    "key_keep": "job.options(key_keep=…)",
    "key_seconds": "job.options(key_keep=…)",
    "on_conflict": "job.options(on_conflict=…)",
    "connection": "job.options(connection=…)",
}
# Arguments of jobs in other schedulers.
_OF_A_SCHEDULE = {
    "cron": 'rota.cron("0 8 * * *")',
    "crontab": 'rota.cron("0 8 * * *")',
    "every": "rota.every(60)",
    "interval": "rota.every(60)",
    "at": "rota.once(…)",
    "init": "rota.on_start()",
    "schedule": 'rota.cron("0 8 * * *")',
    "timezone": 'rota.cron("0 8 * * *", timezone="Europe/Paris")',
}
# Names in the database, the API and JobInfo.
OTHER_NAMES = {
    "payload": "default_payload",
    "is_enabled": "enabled",
    "timeout_seconds": "timeout",
    "delay_seconds": "delay",
    "expires_in_seconds": "expires_in",
}

"""Declarations of `@app.job`, checked and frozen."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rota.config import Config
from rota.errors import JobError, PayloadError
from rota.jobs.hooks import NO_HOOKS, FailureFunction, Hooks
from rota.jobs.job_arguments import (
    BackoffFunction,
    ExecutorName,
    JobArguments,
    UpgradeFunction,
    check_arguments,
)
from rota.jobs.key_template import check_key
from rota.jobs.limits import name_limits
from rota.jobs.payload import PayloadSchema
from rota.jobs.result import result_decoder
from rota.jobs.timings import name_schedules
from rota.jobs.upgrade import intake_of
from rota.jobs.values import check_duration
from rota.model.backoff import Backoff
from rota.model.outcome import Policy
from rota.model.retention import Retention

_log = logging.getLogger("rota.jobs")


@dataclass(frozen=True, slots=True, eq=False)
class JobDefinition:
    """A job as its code declares it; None means the default of the configuration."""

    name: str
    function: Callable[..., Any]
    executor: ExecutorName
    schema: PayloadSchema
    source: str
    decode_result: Callable[[Any], Any]
    queue: str | None = None
    priority: int | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    backoff: Backoff | BackoffFunction | None = None
    retry_on: tuple[type[BaseException], ...] = (BaseException,)
    give_up_on: tuple[type[BaseException], ...] = ()
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    description: str = ""
    enabled: bool = True
    default_payload: Mapping[str, Any] | None = None
    schedules: tuple[dict[str, Any], ...] = ()
    log_level: str | None = None
    capture_logs: bool | None = None
    events: tuple[str, ...] = ()
    event_filters: Mapping[str, Any] = field(default_factory=dict)
    event_delivery: Mapping[str, Any] | None = None
    retention: Retention | None = None
    limits: tuple[dict[str, Any], ...] = ()
    delay: float | None = None
    expires_in: float | None = None
    key: str | None = None
    tenant: str | None = None
    upgrade: UpgradeFunction | None = None
    aliases: tuple[str, ...] = ()
    intake: int = 0  # identifies the payloads that this code accepts
    on_failure: FailureFunction | None = None
    hooks: Hooks = NO_HOOKS

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        config: Config,
        arguments: JobArguments,
        hooks: Hooks = NO_HOOKS,
    ) -> JobDefinition:
        """Check a declaration; a JobError names the function and the problem."""
        place = _check_function(function)
        values = check_arguments(arguments, place, config)
        name = values.pop("name", None) or function.__name__
        if name in values.get("aliases", ()):
            raise JobError(f'{place}: "{name}" is the name of the job and one of its aliases')
        values["events"], values["event_filters"] = values.get("events", ((), {}))
        values["executor"] = _check_executor(function, values.get("executor"), place)
        values.setdefault("description", _first_line(function))
        values["schedules"] = tuple(name_schedules(name, values.get("schedules", ())))
        values["limits"] = tuple(name_limits(name, values.get("limits", ())))
        schema = PayloadSchema.of(function, name, place, config.runs.payload_bytes)
        _check_payloads(values, schema, place)
        _check_key(values, schema, place)
        values["decode_result"] = result_decoder(function, name)
        values["intake"] = intake_of(schema.hash, values.get("upgrade"), config.release)
        return cls(name=name, function=function, schema=schema, source=place, hooks=hooks, **values)

    @property
    def schedule_names(self) -> list[str]:
        return [str(schedule["name"]) for schedule in self.schedules]

    def policy(
        self,
        config: Config,
        random: Callable[[], float],
        override_backoff_json: Mapping[str, Any] | None = None,
    ) -> Policy:
        """Return the retry policy. A stored override takes precedence over the code."""
        delay = self._delay(config, random, override_backoff_json)
        return Policy(delay, self.retry_on, self.give_up_on)

    def _delay(
        self,
        config: Config,
        random: Callable[[], float],
        override: Mapping[str, Any] | None,
    ) -> Callable[[int], float]:
        default = config.runs.default_backoff()
        if override is not None:
            try:
                return _by_data(Backoff.from_json(override), random)
            except (ValueError, TypeError) as error:
                # Stored without a check, by SQL; a retry must not fail because of it.
                _log.warning('job "%s": stored backoff is ignored: %s', self.name, error)
        if isinstance(self.backoff, Backoff):
            return _by_data(self.backoff, random)
        if self.backoff is not None:
            return _by_function(self.backoff, self.name, _by_data(default, random))
        return _by_data(default, random)


def _by_data(backoff: Backoff, random: Callable[[], float]) -> Callable[[int], float]:
    return lambda attempt: backoff.delay(attempt, random)


def _by_function(
    function: BackoffFunction, job: str, default: Callable[[int], float]
) -> Callable[[int], float]:
    """Call a backoff function of the user; if it fails, the run still gets its retry."""

    def delay(attempt: int) -> float:
        try:
            return check_duration("the backoff function's answer", function(attempt), least=0)
        except Exception as error:
            _log.exception('job "%s": the default backoff is used: %s', job, error)
            return default(attempt)

    return delay


def _check_function(function: Any) -> str:
    """Return the function's place, for errors and for `rota.jobs.source`."""
    if isinstance(function, type) or not inspect.isroutine(function):
        raise JobError(f"a job must be a function (def or async def), not {function!r}")
    inner = inspect.unwrap(function)
    place = f"{function.__module__}:{function.__qualname__}"
    code = getattr(inner, "__code__", None)
    if code is None:
        raise JobError(f"a job must be a function written in Python; {place} is not")
    place = f"{place} ({code.co_filename}:{code.co_firstlineno})"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise JobError(f"{place} is a generator; a job must return one result")
    return place


def _check_executor(
    function: Callable[..., Any], wanted: ExecutorName | None, place: str
) -> ExecutorName:
    is_async = inspect.iscoroutinefunction(function)
    if wanted is None:
        return "async" if is_async else "thread"
    if wanted == "async" and not is_async:
        raise JobError(f'{place}: executor "async" needs an async def; a def runs in a thread')
    if wanted == "thread" and is_async:
        raise JobError(f'{place}: executor "thread" needs a def; an async def runs in the loop')
    if wanted == "process" and function.__qualname__ != function.__name__:
        raise JobError(
            f'{place}: executor "process" needs a function at the top level of a module, '
            "which another process can import"
        )
    if wanted == "process" and not function.__name__.isidentifier():
        raise JobError(f'{place}: executor "process" needs a function with a name')
    return wanted


def _check_payloads(values: dict[str, Any], schema: PayloadSchema, place: str) -> None:
    """Check default payloads at declaration, not when the first schedule is due."""
    try:
        if "default_payload" in values:
            payload = schema.encode(schema.bind((), values["default_payload"]))
            values["default_payload"] = json.loads(payload)
    except PayloadError as error:
        raise JobError(f"{place}: {error}") from None
    for schedule in values["schedules"]:
        given = schedule["payload"]
        try:
            wanted = values.get("default_payload", {}) if given is None else given
            checked = schema.encode(schema.bind((), wanted))
        except PayloadError as error:
            hint = error.hint or "pass a payload to the schedule, or default_payload to the job"
            text = f'{place}: its schedule "{schedule["name"]}": {error}'
            raise JobError(text, hint=hint) from None
        schedule["payload"] = None if given is None else json.loads(checked)


def _check_key(values: dict[str, Any], schema: PayloadSchema, place: str) -> None:
    """Check the key at declaration, not at the first enqueue: the function's arguments must fill
    it, and it cannot be combined with some options."""
    if "key" not in values:
        return
    try:
        check_key("key", values["key"], schema.names)
    except ValueError as error:
        raise JobError(f"{place}: {error}") from None
    if values["schedules"]:
        raise JobError(
            f"{place}: key and schedules cannot be combined: every time of a schedule needs a run",
            hint="use the schedule's overlap policy instead",
        )
    if "event_delivery" in values:
        raise JobError(
            f"{place}: key and event_delivery cannot be combined",
            hint="pass the key to rota.debounce or rota.throttle instead",
        )


def _first_line(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return text.strip().split("\n", 1)[0].replace("\0", "")[:10_000]

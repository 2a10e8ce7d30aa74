"""What `@app.job` declares, checked and frozen."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from rota.config import Config
from rota.config.sections.shown import Level
from rota.errors import InputError, JobError, PayloadError
from rota.jobs.deliveries import DeclaredDelivery, check_event_delivery
from rota.jobs.encoding import encode_value
from rota.jobs.key_template import check_key
from rota.jobs.limits import DeclaredLimit, name_limits
from rota.jobs.on import On, bindings
from rota.jobs.payload import PayloadSchema
from rota.jobs.result import result_decoder
from rota.jobs.timings import DeclaredSchedule, name_schedules
from rota.jobs.values import (
    check_duration,
    check_level,
    check_number,
    check_tags,
    check_tenant,
    check_text,
    with_short_names,
)
from rota.model.backoff import Backoff
from rota.model.instants import LONGEST_SECONDS
from rota.model.outcome import Policy
from rota.model.retention import Retention

ExecutorName = Literal["async", "thread", "process"]
EXECUTORS: tuple[ExecutorName, ...] = get_args(ExecutorName)
ErrorTypes = type[BaseException] | tuple[type[BaseException], ...]
BackoffFunction = Callable[[int], "float | timedelta"]

_log = logging.getLogger("rota.jobs")


class JobArguments(TypedDict, total=False):
    """What `@app.job()` takes, for type checkers."""

    name: str | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    timeout: float | timedelta | None
    backoff: Backoff | Mapping[str, Any] | str | BackoffFunction | None
    retry_on: ErrorTypes | None
    give_up_on: ErrorTypes | None
    tags: list[str] | tuple[str, ...] | None
    metadata: Mapping[str, Any] | None
    executor: ExecutorName | None
    description: str | None
    enabled: bool | None
    default_payload: Mapping[str, Any] | None
    payload: Mapping[str, Any] | None  # the same, in a shorter word
    schedules: list[DeclaredSchedule] | tuple[DeclaredSchedule, ...] | None
    log_level: Level | None
    capture_logs: bool | None
    events: str | On | list[str | On] | tuple[str | On, ...] | None
    event_delivery: DeclaredDelivery | Mapping[str, Any] | None
    retention: Retention | Mapping[str, Any] | None
    limits: DeclaredLimit | list[DeclaredLimit] | tuple[DeclaredLimit, ...] | None
    delay: float | timedelta | None
    expires_in: float | timedelta | None
    key: str | None
    tenant: str | None


@dataclass(frozen=True, slots=True, eq=False)
class JobDefinition:
    """A job as its code declares it; None means that the configuration's default holds."""

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

    @classmethod
    def of(
        cls, function: Callable[..., Any], config: Config, arguments: JobArguments
    ) -> JobDefinition:
        """Check a declaration; a JobError names the function and what is wrong with it."""
        place = _check_function(function)
        try:
            named = with_short_names(arguments, _OTHER_NAMES)
        except ValueError as error:
            raise JobError(f"{place}: {error}") from None
        given = {name: value for name, value in named.items() if value is not None}
        values = {
            name: _check_argument(name, value, place, config) for name, value in given.items()
        }
        name = values.pop("name", None) or function.__name__
        values["events"], values["event_filters"] = values.get("events", ((), {}))
        values["executor"] = _check_executor(function, values.get("executor"), place)
        values.setdefault("description", _first_line(function))
        values["schedules"] = tuple(name_schedules(name, values.get("schedules", ())))
        values["limits"] = tuple(name_limits(name, values.get("limits", ())))
        schema = PayloadSchema.of(function, name, place, config.runs.payload_bytes)
        _check_payloads(values, schema, place)
        _check_key(values, schema, place)
        values["decode_result"] = result_decoder(function, name)
        return cls(name=name, function=function, schema=schema, source=place, **values)

    def policy(
        self,
        config: Config,
        random: Callable[[], float],
        override_backoff_json: Mapping[str, Any] | None = None,
    ) -> Policy:
        """What becomes of failed attempts. An override, stored as data, beats the code's."""
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
                # Written past the edge; a retry must not fail over it.
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
    """User code in the path of a failure: if it fails too, the run still gets its retry."""

    def delay(attempt: int) -> float:
        try:
            return check_duration("the backoff function's answer", function(attempt), least=0)
        except Exception as error:
            _log.exception('job "%s": the default backoff is used: %s', job, error)
            return default(attempt)

    return delay


def _check_function(function: Any) -> str:
    """The function's place, for errors and for `rota.jobs.source`."""
    if isinstance(function, type) or not inspect.isroutine(function):
        raise JobError(f"a job is a function (def or async def), not {function!r}")
    inner = inspect.unwrap(function)
    place = f"{function.__module__}:{function.__qualname__}"
    code = getattr(inner, "__code__", None)
    if code is None:
        raise JobError(f"a job is a function written in Python; {place} is not")
    place = f"{place} ({code.co_filename}:{code.co_firstlineno})"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise JobError(f"{place} is a generator; a job returns one result")
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
    """A default payload that the function would not take is found here, not at eight o'clock."""
    try:
        if "default_payload" in values:
            payload = schema.encode(schema.bind((), values["default_payload"]))
            values["default_payload"] = json.loads(payload)
        for one in values["schedules"]:
            if one["payload"] is not None:
                one["payload"] = json.loads(schema.encode(schema.bind((), one["payload"])))
    except PayloadError as error:
        raise JobError(f"{place}: {error}") from None


def _check_key(values: dict[str, Any], schema: PayloadSchema, place: str) -> None:
    """A key that the function's arguments cannot fill, or that something else gets in the way of,
    is found here, not by the first enqueue."""
    if "key" not in values:
        return
    try:
        check_key("key", values["key"], schema.names)
    except ValueError as error:
        raise JobError(f"{place}: {error}") from None
    if values["schedules"]:
        raise JobError(
            f"{place}: key and schedules exclude each other: every time of a schedule has its run",
            hint="overlap says what happens while the last run of a schedule has not ended",
        )
    if "event_delivery" in values:
        raise JobError(
            f"{place}: key and event_delivery exclude each other",
            hint="rota.debounce and rota.throttle take a key of their own",
        )


def _check_argument(name: str, value: Any, place: str, config: Config) -> Any:
    check = _CHECKS.get(name)
    if check is None:
        raise JobError(f"{place}: a job has no option {name}; it has {', '.join(_CHECKS)}")
    try:
        return check(name, value, config)
    except (ValueError, InputError) as error:
        raise JobError(f"{place}: {error}") from None


def _check_backoff(name: str, value: Any, config: Config) -> Backoff | BackoffFunction:
    if callable(value):
        return value  # type: ignore[no-any-return]
    return Backoff.parse(value, config.runs.default_backoff())


def _check_errors(name: str, value: Any, config: Config) -> tuple[type[BaseException], ...]:
    types = tuple(value) if isinstance(value, tuple | list) else (value,)
    for kind in types:
        if not (isinstance(kind, type) and issubclass(kind, BaseException)):
            raise ValueError(f"{name} must be exception types, not {kind!r}")
    return types


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


def _check_level(name: str, value: Any, config: Config) -> str:
    return check_level(name, value)


def _check_schedules(name: str, value: Any, config: Config) -> tuple[DeclaredSchedule, ...]:
    given = (value,) if isinstance(value, DeclaredSchedule) else tuple(value)
    for one in given:
        if not isinstance(one, DeclaredSchedule):
            raise ValueError(f"{name} are made with rota.cron, every, once or init, not {one!r}")
    return given


def _check_limits(name: str, value: Any, config: Config) -> tuple[DeclaredLimit, ...]:
    given = (value,) if isinstance(value, DeclaredLimit) else tuple(value)
    for one in given:
        if not isinstance(one, DeclaredLimit):
            raise ValueError(f"{name} are made with rota.concurrency, rate or sequence: {one!r}")
    return given


_CHECKS: dict[str, Callable[[str, Any, Config], Any]] = {
    "name": lambda name, value, config: check_text(name, value, most=200),
    "queue": lambda name, value, config: check_text(name, value, most=100),
    "priority": lambda name, value, config: check_number(name, value, 0, 9),
    "max_attempts": lambda name, value, config: check_number(name, value, 1, 100),
    "timeout": lambda name, value, config: check_duration(name, value),
    "backoff": _check_backoff,
    "retry_on": _check_errors,
    "give_up_on": _check_errors,
    "tags": lambda name, value, config: check_tags(name, value),
    "metadata": _check_metadata,
    "executor": _check_executor_name,
    "description": lambda name, value, config: check_text(name, value, most=10_000, least=0),
    "enabled": _check_enabled,
    "default_payload": _check_metadata,
    "schedules": _check_schedules,
    "log_level": _check_level,
    "capture_logs": _check_enabled,
    "events": lambda name, value, config: bindings(name, value),
    "event_delivery": lambda name, value, config: check_event_delivery(name, value),
    "retention": lambda name, value, config: Retention.parse(value),
    "limits": _check_limits,
    "delay": lambda name, value, config: check_duration(name, value, 0, LONGEST_SECONDS),
    "expires_in": lambda name, value, config: check_duration(name, value, most=LONGEST_SECONDS),
    "key": lambda name, value, config: check_text(name, value, most=200),
    "tenant": lambda name, value, config: check_tenant(name, value),
}
# What the database, the API and JobInfo call them.
_OTHER_NAMES = {
    "payload": "default_payload",
    "is_enabled": "enabled",
    "timeout_seconds": "timeout",
    "delay_seconds": "delay",
    "expires_in_seconds": "expires_in",
}


def _first_line(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return text.strip().split("\n", 1)[0].replace("\0", "")

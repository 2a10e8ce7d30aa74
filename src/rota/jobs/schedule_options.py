"""Checks the short arguments of a schedule and converts them to columns of `rota.schedules`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, TypedDict, get_args

from rota.errors import TimingError
from rota.jobs.encoding import encode_value
from rota.jobs.values import YEAR, with_short_names
from rota.model.durations import Duration, read_duration
from rota.model.instants import LONGEST_SECONDS, SUPPORTED, is_instant
from rota.model.schedule import CatchUp, Overlap, Requirement, timing_arguments

Seconds = Duration
Required = str | tuple[str, Seconds] | Mapping[str, Any] | Requirement


class ScheduleArguments(TypedDict, total=False):
    """Arguments of `app.schedule`, `app.schedules.create`, `put` and `update`, besides name and
    job.

    Exactly one of `cron`, `every`, `at` and `init` sets the timing.
    """

    cron: str | None
    every: Seconds | None
    at: datetime | None
    init: Literal["once", "release", "start"] | None
    timezone: str
    gap: Literal["run_after", "skip"]
    fold: Literal["first", "second", "both"]
    with_seconds: bool
    every_from: Literal["start", "end"]
    start_at: datetime | None
    end_at: datetime | None
    max_runs: int | None
    jitter: Seconds
    burst_allowed: bool
    calendar: str | None
    on_closed: Literal["skip", "next_day"]
    catch_up: CatchUp
    catch_up_window: Seconds | None
    catch_up_limit: int
    grace: Seconds
    overlap: Overlap
    max_concurrent_runs: int
    pause_after_failures: int | None
    requires: Iterable[Required]
    shadow: bool
    delete_when_finished: bool
    payload: Mapping[str, Any] | None
    queue: str | None
    priority: int | None
    max_attempts: int | None
    timeout: Seconds | None
    run_tags: Iterable[str] | None
    run_metadata: Mapping[str, Any] | None
    description: str
    tags: Iterable[str]
    metadata: Mapping[str, Any]
    enabled: bool | None


class ScheduleKeywords(ScheduleArguments, total=False):
    """`ScheduleArguments`, also by the names of columns and ScheduleInfo."""

    interval_seconds: Seconds | None
    run_at: datetime | None
    has_seconds: bool
    jitter_seconds: Seconds
    catch_up_seconds: Seconds | None
    grace_seconds: Seconds
    is_shadow: bool
    timeout_seconds: Seconds | None
    is_enabled: bool | None


def columns(arguments: ScheduleArguments) -> dict[str, Any]:
    """Return the given columns as JSON values. An invalid value is a TimingError.

    None means the value that the table has without it: nothing, or its default. A column's name
    (`interval_seconds` for `every`) is accepted for the argument.
    """
    given: dict[str, Any] = {}
    try:
        named = with_short_names(arguments, OTHER_NAMES)
    except ValueError as error:
        raise TimingError(str(error)) from None
    for name, value in named.items():
        if name not in _READ:
            known = ", ".join(_READ)
            raise TimingError(f"unknown schedule option {name}", hint=f"choose from {known}")
        column, default, read = _READ[name]
        given[column] = default if value is None else read(name, value)
    return _without_every(given)


def columns_to_reset(names: Iterable[str]) -> list[str]:
    """Return the columns of these options, which may be given by either name."""
    found = [OTHER_NAMES.get(name, name) for name in names]
    for name in found:
        if name not in _READ or name == "job":
            known = ", ".join(option for option in _READ if option != "job")
            raise TimingError(f"unknown schedule option {name}", hint=f"choose from {known}")
    return [_READ[name][0] for name in found]


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all columns of a schedule; missing ones get their default."""
    return DEFAULTS | dict(given)


def check_timing(stored: Mapping[str, Any]) -> None:
    """Raise TimingError unless the columns of a schedule have exactly one valid timing."""
    kinds = ("cron", "interval_seconds", "run_at", "init")
    found = [name for name in kinds if stored.get(name) is not None]
    if len(found) != 1:
        listed = " and ".join(_SHORT[name] for name in found) or "none"
        raise TimingError(
            f"a schedule needs exactly one of cron, every, at and init, found {listed}"
        )
    if stored.get("every_from") == "end" and "interval_seconds" not in found:
        raise TimingError("every_from = end requires every: the interval starts when a run ends")
    if found != ["init"]:
        from rota.timing.timing import Timing

        Timing.of(**timing_arguments({name: stored.get(name) for name in TIMING}))


def refuse_ignored(given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raise TimingError for given options that require a cron expression, if the schedule
    (`stored`) has none."""
    if stored.get("cron") is not None:
        return
    for column, what in _OF_CRON.items():
        if given.get(column, DEFAULTS[column]) != DEFAULTS[column]:
            raise TimingError(f"{OTHER_NAMES.get(column, column)} requires cron: {what}")


TIMING: Final = (
    "cron", "interval_seconds", "run_at", "timezone", "gap", "fold", "start_at", "end_at",
    "has_seconds",
)  # fmt: skip
_OF_CRON = {
    "has_seconds": "it says that the expression has six fields",
    "gap": "it is about local times that a clock change skips",
    "fold": "it is about local times that a clock change repeats",
}
_SHORT = {"cron": "cron", "interval_seconds": "every", "run_at": "at", "init": "init"}


def _without_every(given: dict[str, Any]) -> dict[str, Any]:
    """Store `@every 90s` as an interval."""
    cron = given.get("cron")
    if cron is None:
        return given
    from rota.timing.interval import every

    step = every(cron)
    if step is not None:
        given |= {"cron": None, "interval_seconds": step.total_seconds()}
    return given


# Readers of single values; the name is for the error.


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise TimingError(f"{name} must be a string, not {value!r}")
    return " ".join(value.split()) if name == "cron" else value


def _any_text(name: str, value: Any) -> str:
    return value if value == "" else _text(name, value)


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TimingError(f"{name} must be true or false, not {value!r}")
    return value


def _seconds(
    least: float, is_open: bool = False, most: float = LONGEST_SECONDS
) -> Callable[[str, Any], float]:
    def read(name: str, value: Any) -> float:
        number = read_duration(value)
        if number is None:
            raise TimingError(f"{name} must be a duration, not {value!r}")
        if number < least or (is_open and number == least):
            bound = "more than" if is_open else "at least"
            raise TimingError(f"{name} must be {bound} {least:.12g} seconds, not {number:.12g}")
        if number > most:
            raise TimingError(f"{name} must be at most {most:.0f} seconds, not {number:.12g}")
        return number

    return read


def _count(least: int, most: int = 2**31 - 1) -> Callable[[str, Any], int]:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TimingError(f"{name} must be a whole number, not {value!r}")
        if not least <= value <= most:
            bound = f"from {least} to {most}" if most < 2**31 - 1 else f"at least {least}"
            raise TimingError(f"{name} must be {bound}, not {value}")
        return value

    return read


def _word(*allowed: str) -> Callable[[str, Any], str]:
    def read(name: str, value: Any) -> str:
        if value not in allowed:
            raise TimingError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        return str(value)

    return read


def _instant(name: str, value: Any) -> str:
    if not isinstance(value, datetime):
        raise TimingError(f"{name} must be a date and time, not {value!r}")
    if value.utcoffset() is None:
        raise TimingError(
            f"{name} {value.isoformat(sep=' ')} has no time zone",
            hint="give an offset, as in 2026-03-08T09:00:00+01:00 or …Z",
        )
    if not is_instant(value):
        raise TimingError(f"{name} {value.isoformat()} is not in {SUPPORTED}")
    return value.isoformat()


def _mapping(name: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TimingError(f"{name} must be an object, not {value!r}")
    return json.loads(encode_value(dict(value), name))


def _words(name: str, value: Any) -> list[str]:
    listed = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if listed is None or not all(isinstance(word, str) and word for word in listed):
        raise TimingError(f"{name} must be a list of strings, not {value!r}")
    return listed


def _requires(name: str, value: Any) -> list[dict[str, Any]]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TimingError(f"{name} must be a list of names, not {value!r}")
    return [_requirement(required) for required in value]


def _requirement(one: Any) -> dict[str, Any]:
    name, within = _name_and_time(one)
    found = {"name": _text("requires", name)}
    return found if within is None else found | {"within_seconds": _POSITIVE("within", within)}


def _name_and_time(one: Any) -> tuple[Any, Any]:
    match one:
        case (name, within):
            return name, within
        case Mapping():
            return one.get("name"), one.get("within_seconds")
        case Requirement():
            return one.name, one.within_seconds
        case _:
            return one, None


_POSITIVE = _seconds(0, is_open=True)
# Argument: column, meaning of None, and the reader of a value.
_READ: Final[dict[str, tuple[str, Any, Callable[[str, Any], Any]]]] = {
    "job": ("job", None, _text),
    "cron": ("cron", None, _text),
    "every": ("interval_seconds", None, _seconds(1)),
    "at": ("run_at", None, _instant),
    "init": ("init", None, _word("once", "release", "start")),
    "timezone": ("timezone", "UTC", _text),
    "gap": ("gap", "run_after", _word("run_after", "skip")),
    "fold": ("fold", "first", _word("first", "second", "both")),
    "with_seconds": ("has_seconds", False, _flag),
    "every_from": ("every_from", "start", _word("start", "end")),
    "start_at": ("start_at", None, _instant),
    "end_at": ("end_at", None, _instant),
    "max_runs": ("max_runs", None, _count(1)),
    "jitter": ("jitter_seconds", 0.0, _seconds(0)),
    "burst_allowed": ("burst_allowed", False, _flag),
    "calendar": ("calendar", None, _text),
    "on_closed": ("on_closed", "skip", _word("skip", "next_day")),
    "catch_up": ("catch_up", "latest", _word(*get_args(CatchUp))),
    "catch_up_window": ("catch_up_seconds", None, _seconds(0)),
    "catch_up_limit": ("catch_up_limit", 100, _count(1)),
    "grace": ("grace_seconds", 60.0, _seconds(0)),
    "overlap": ("overlap", "skip", _word(*get_args(Overlap))),
    "max_concurrent_runs": ("max_concurrent_runs", 1, _count(1)),
    "pause_after_failures": ("pause_after_failures", None, _count(1)),
    "requires": ("requires", [], _requires),
    "shadow": ("is_shadow", False, _flag),
    "delete_when_finished": ("delete_when_finished", False, _flag),
    "payload": ("payload", None, _mapping),
    "queue": ("queue", None, _text),
    "priority": ("priority", None, _count(0, 9)),
    "max_attempts": ("max_attempts", None, _count(1, 100)),
    "timeout": ("timeout_seconds", None, _seconds(0.001, most=YEAR)),
    "run_tags": ("run_tags", None, _words),
    "run_metadata": ("run_metadata", None, _mapping),
    "description": ("description", "", _any_text),
    "tags": ("tags", [], _words),
    "metadata": ("metadata", {}, _mapping),
    "enabled": ("is_enabled", None, _flag),
}
# Names in ScheduleInfo, the API and the columns.
OTHER_NAMES: Final = {column: name for name, (column, _, _) in _READ.items() if column != name}
DEFAULTS: Final = {column: default for column, default, _ in _READ.values() if column != "job"}

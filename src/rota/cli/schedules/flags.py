"""The flags that define a schedule: the same for `create`, `update` and `preview`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import wraps
from typing import Annotated, Any, Final, NamedTuple, get_type_hints

import typer

from rota.cli.terminal import times, values

NONE = "none"


class Flag(NamedTuple):
    metavar: str
    help: str
    read: Callable[[str, str], Any]
    is_list: bool = False


def _text(text: str, option: str) -> str:
    return text


def _whole(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        values.refuse(option, f"{text!r} is not a whole number")


def truth(text: str, option: str) -> bool:
    words = text.strip().lower()
    if words not in ("true", "false"):
        values.refuse(option, f"{text!r} is neither true nor false")
    return words == "true"


def _wall(text: str, option: str) -> datetime:
    """Read the time as written; `read` decides on the zone of a time without one."""
    try:
        return datetime.fromisoformat(text.strip())
    except ValueError:
        values.refuse(
            option, f"{text!r} is not a time; write 2026-01-31T14:30 or 2026-01-31T14:30:00Z"
        )


def _requirement(text: str, option: str) -> Any:
    """Read `NAME`, or `NAME:1h` for a success within that time."""
    name, colon, within = text.rpartition(":")
    return (name, values.seconds(within, option)) if colon else text


def _duration(text: str, option: str) -> Any:
    return values.seconds(text, option)


def _object(text: str, option: str) -> Any:
    return values.payload(text, option)


# In the order of the reference. The keys are the arguments of app.schedules.
FLAGS: Final[dict[str, Flag]] = {
    "cron": Flag("EXPRESSION", "Cron expression: five fields, or @hourly, @daily, …", _text),
    "every": Flag("DURATION", "Interval between runs (minimum 1s).", _duration),
    "at": Flag("TIME", "Run once, at this time.", _wall),
    "init": Flag("once|release|start", "Run when the application starts.", _text),
    "timezone": Flag("ZONE", "Time zone of the schedule, e.g. Europe/Paris. Default: UTC.", _text),
    "gap": Flag("run_after|skip", "Policy for local times skipped by a clock change.", _text),
    "fold": Flag("first|second|both", "Policy for local times repeated by a clock change.", _text),
    "with_seconds": Flag("true|false", "Cron expression has six fields, seconds first.", truth),
    "every_from": Flag("start|end", "Measure --every from the start or end of a run.", _text),
    "start_at": Flag("TIME", "Earliest run time; --every is counted from it.", _wall),
    "end_at": Flag("TIME", "Latest run time.", _wall),
    "max_runs": Flag("N", "Number of runs after which the schedule is finished.", _whole),
    "jitter": Flag("DURATION", "Maximum random delay of each run.", _duration),
    "burst_allowed": Flag(
        "true|false", "Start on time even if many schedules are due at once.", truth
    ),
    "calendar": Flag("NAME", "Calendar of days and windows without runs.", _text),
    "on_closed": Flag("skip|next_day", "Policy for times the calendar excludes.", _text),
    "catch_up": Flag("none|latest|all", "Policy for missed times.", _text),
    "catch_up_window": Flag("DURATION", "How far back to catch up. Default: no limit.", _duration),
    "catch_up_limit": Flag("N", "Maximum number of missed times to catch up.", _whole),
    "grace": Flag("DURATION", "Lateness that still counts as on time.", _duration),
    "overlap": Flag(
        "skip|queue_one|queue_all|cancel_running|allow",
        "Policy while the previous run is unfinished.",
        _text,
    ),
    "max_concurrent_runs": Flag(
        "N", "Unfinished runs at which the overlap policy applies.", _whole
    ),
    "pause_after_failures": Flag("N", "Pause after this many consecutive failures.", _whole),
    "requires": Flag(
        "NAME[:DURATION]",
        "Schedule or job that must have succeeded; repeatable.",
        _requirement,
        True,
    ),
    "shadow": Flag("true|false", "Dry run: record decisions, but enqueue nothing.", truth),
    "delete_when_finished": Flag("true|false", "Delete the schedule when it is finished.", truth),
    "payload": Flag("JSON|@FILE|-", "Payload of its runs.", _object),
    "queue": Flag("NAME", "Queue of its runs. Default: the job's.", _text),
    "priority": Flag("0..9", "Priority of its runs; lower runs first.", _whole),
    "max_attempts": Flag("N", "Maximum attempts of its runs.", _whole),
    "timeout": Flag("DURATION", "Timeout of each attempt.", _duration),
    "run_tags": Flag("TAG", "Tag of its runs; repeatable.", _text, True),
    "run_metadata": Flag("JSON", "Metadata of its runs.", _object),
    "description": Flag("TEXT", "Description.", _text),
    "tags": Flag("TAG", "Tag of the schedule; repeatable.", _text, True),
    "metadata": Flag("JSON", "Metadata of the schedule.", _object),
    "enabled": Flag("true|false", "Whether the schedule is enabled.", truth),
}
_SINGULAR = {"run_tags": "run-tag", "tags": "tag"}
WHEN: Final = (
    "cron", "every", "at", "timezone", "gap", "fold", "with_seconds", "start_at", "end_at",
    "calendar", "on_closed",
)  # fmt: skip
_INSTANTS = ("at", "start_at", "end_at")


def option(key: str) -> str:
    return f"--{_SINGULAR.get(key, key.replace('_', '-'))}"


def takes(*keys: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add these flags to the command, all of them as text, after its own; see `read`."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(command).parameters.values()
            if parameter.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        signature = inspect.Signature([*own, *map(_parameter, keys)])

        @wraps(command)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return command(*args, **kwargs)

        found: Any = wrapper
        found.__signature__ = signature
        found.__annotations__ = {it.name: it.annotation for it in signature.parameters.values()}
        return wrapper

    return decorate


def _parameter(key: str) -> inspect.Parameter:
    flag = FLAGS[key]
    kind: Any = list[str] | None if flag.is_list else str | None
    declared = typer.Option(option(key), metavar=flag.metavar, help=flag.help)
    return inspect.Parameter(
        key, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, declared]
    )


def read(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given arguments; `none` clears an argument if it is not one of its choices. An
    invalid value ends the command."""
    found: dict[str, Any] = {}
    for key, text in given.items():
        if text is None or text == []:
            continue
        flag = FLAGS[key]
        if text in (NONE, [NONE]) and NONE not in flag.metavar.split("|"):
            found[key] = None
        elif flag.is_list:
            found[key] = [flag.read(item, option(key)) for item in text]
        else:
            found[key] = flag.read(text, option(key))
    for key in _INSTANTS:
        if found.get(key) is not None:
            found[key] = _placed(found[key], found.get("timezone"))
    return found


def _placed(at: datetime, timezone: str | None) -> datetime:
    """Add a zone to a time without offset: the schedule's if it is given, otherwise the
    viewer's."""
    if at.tzinfo is not None:
        return at
    if timezone is None:
        return times.local(at)
    from rota.timing.once import instant_of
    from rota.timing.zones import zone

    return instant_of(at, zone(timezone))

"""The settings of a schedule as columns of `rota.schedules`, and rules about several of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from rota.errors import InputError, TimingError
from rota.hints import FIELD
from rota.jobs.encoding import encode_value
from rota.jobs.values import with_short_names
from rota.model.schedule import timing_arguments
from rota.model.schedule_fields import (
    KINDS,
    OF_CRON,
    SHORT_NAMES,
    defaults,
    schedule_settings,
)

TIMING: Final = (
    "cron",
    "interval_seconds",
    "run_at",
    "timezone",
    "gap",
    "fold",
    "start_at",
    "end_at",
    "has_seconds",
)


def columns(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given settings, by either of their names, as JSON values of their columns; raise
    TimingError for one that is not valid. None means the default of the column."""
    known = schedule_settings()
    try:
        named = with_short_names(settings, SHORT_NAMES)
        return stored({name: known[name].read(value) for name, value in named.items()})
    except KeyError as error:
        hint = f"choose from {', '.join(known)}"
        name = error.args[0]
        raise TimingError(f"unknown schedule option {name}", hint=hint, field=name) from None
    except InputError as error:
        short = (name for name in settings if SHORT_NAMES.get(name) == error.field)
        error.argument = next(short, error.argument)
        raise error.retold(TimingError) from None
    except ValueError as error:
        raise TimingError(str(error)) from None


def stored(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings that are checked as JSON values."""
    return _without_every({name: _json(name, value) for name, value in settings.items()})


def _json(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return json.loads(encode_value(dict(value), name))
    return value


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all columns of a schedule; missing ones get their default."""
    return defaults() | dict(given)


def check_timing(stored: Mapping[str, Any]) -> None:
    """Raise TimingError unless the columns of a schedule have exactly one valid timing."""
    found = [name for name in KINDS if stored.get(name) is not None]
    if len(found) != 1:
        listed = " and ".join(found) or "none"
        raise TimingError(
            "a schedule needs exactly one of cron, interval_seconds, run_at and init, found "
            f"{listed}",
            field=found[-1] if found else None,
        )
    if stored.get("every_from") == "end" and "interval_seconds" not in found:
        raise TimingError(
            "every_from = end requires interval_seconds: the interval starts when a run ends",
            field="every_from",
        )
    if found != ["init"]:
        from rota.timing.timing import Timing

        Timing.of(**timing_arguments({name: stored.get(name) for name in TIMING}))


def refuse_ignored(given: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Raise TimingError for given options that require a cron expression, if the schedule
    (`stored`) has none."""
    if stored.get("cron") is not None:
        return
    usual = defaults()
    for column in OF_CRON:
        if given.get(column, usual[column]) != usual[column]:
            help_text = schedule_settings()[column].field.help
            raise TimingError(f"{FIELD} requires cron", hint=help_text, field=column)


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

"""Cron expressions: parsed and stepped by cronsim, on local times only.

Five fields: minute, hour, day of month, month, day of week. With seconds: six, seconds first. Names
(JAN, MON), ranges, steps, lists, `L` (last day), `LW` (last weekday), `5L` (last Friday) and `5#2`
(second Friday) are supported; 0 and 7 are Sunday. If day of month and day of week are both
restricted, either matches; if one of them begins with `*`, both must match.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Final

from cronsim import CronSim, CronSimError

from rota.errors import TimingError
from rota.timing.dst import Fold, Gap, fixed_times, real_times
from rota.timing.nominal import LATEST, Nominal

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

# Even fully written lists are far shorter; this bounds the cost of a corrupt row.
MAX_LENGTH = 1000
# Any start can be used to parse an expression; from here cronsim searches 50 years ahead, which
# covers the 28 years after which leap days and weekdays repeat.
_BASE = datetime(2001, 1, 1)  # noqa: DTZ001  local times have no zone until dst gives them one

_FIELDS = {
    "second": "0-59",
    "minute": "0-59",
    "hour": "0-23",
    "day-of-month": "1-31, L for the last day, LW for the last weekday",
    "month": "1-12 or JAN-DEC",
    "day-of-week": "0-7 or SUN-SAT (0 and 7 are Sunday), 5L the last Friday, 5#2 the second",
}


@dataclass(frozen=True, slots=True)
class CronRule:
    """A cron expression in a zone, with its policies for clock changes."""

    expression: str
    tz: tzinfo
    gap: Gap = "run_after"
    fold: Fold = "first"
    with_seconds: bool = False
    sim: CronSim = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sim", parse(self.expression, self.with_seconds))

    @property
    def is_fixed(self) -> bool:
        """Return whether the expression names times of day; otherwise it follows real time.

        The way the fields are written decides, as in Debian: `*/30 2 * * *` follows real time. With
        seconds the seconds count too, so `0 30 2 * * *` is the same as `30 2 * * *`.
        """
        return not any(part.startswith("*") for part in self.sim.parts[:3])

    def times(self, after: datetime) -> Iterator[Nominal]:
        if after >= LATEST:
            return iter(())
        if self.is_fixed:
            return fixed_times(self.walls, self.tz, after, self.gap, self.fold)
        return real_times(self.walls, self.tz, after)

    def walls(self, after: datetime) -> Iterator[datetime]:
        """Yield the local times after a local time, all without a zone."""
        # A copy of the parsed expression costs a tenth of parsing it again.
        sim = copy.copy(self.sim)
        sim.dt = after.replace(microsecond=0)
        while True:
            try:
                wall = next(sim)
            except (StopIteration, OverflowError, ValueError):
                return  # no match within 50 years, or the end of the calendar
            yield wall


def expand(expression: str) -> str:
    """Return the fields of an expression, with macros expanded and single spaces."""
    text = " ".join(expression.split())
    if not text.startswith("@"):
        return text
    name = text.casefold()
    if name in MACROS:
        return MACROS[name]
    if name == "@reboot":
        raise TimingError(
            "cron '@reboot' is not supported: workers do not all start at the same time",
            hint="use init (once, at each release, or at each start of the workers)",
        )
    raise TimingError(
        f"cron {text!r}: unknown macro",
        hint=f"use {', '.join(MACROS)}, or @every 90s",
    )


def parse(expression: object, with_seconds: bool = False) -> CronSim:
    """Parse an expression; errors quote it and name the invalid part."""
    try:
        if not isinstance(expression, str) or len(expression) > MAX_LENGTH:
            raise TimingError(f"cron must be a string of at most {MAX_LENGTH} characters")
        fields = expand(expression)
        _check_count(fields, with_seconds)
        return _read(fields)
    except TimingError as error:
        error.field = "cron"
        raise


@lru_cache(maxsize=4096)
def _read(fields: str) -> CronSim:
    """Parse fields; cached, because every tick needs the same few. Callers step a copy."""
    try:
        sim = CronSim(fields, _BASE)
        next(copy.copy(sim))
    except CronSimError as error:
        raise _explained(fields, str(error)) from None
    except StopIteration:
        raise TimingError(f"cron {fields!r} never matches: there is no such date") from None
    return sim


def _check_count(fields: str, with_seconds: bool) -> None:
    count = len(fields.split())
    if count == 5 or (count == 6 and with_seconds):
        return
    if count == 6:
        raise TimingError(
            f"cron {fields!r} has six fields, but seconds are not enabled",
            hint="drop the first field (the seconds), or set has_seconds",
        )
    wanted = "five fields, or six with the seconds first" if with_seconds else "five fields"
    counted = {0: "is empty", 1: "has 1 field"}.get(count, f"has {count} fields")
    raise TimingError(
        f"cron {fields!r} {counted} and needs {wanted}",
        hint="write: minute hour day-of-month month day-of-week, as in 0 9 * * MON-FRI",
    )


def _explained(fields: str, message: str) -> TimingError:
    """Extend cronsim's message (`Bad hour`) by the given and the allowed values."""
    name = message.removeprefix("Bad ").strip()
    if name not in _FIELDS:
        return TimingError(f"cron {fields!r}: {message}")
    parts = fields.split()
    given = parts[list(_FIELDS).index(name) - (6 - len(parts))]
    if name == "day-of-month" and re.fullmatch("3[01](,3[01])*", given):
        return TimingError(f"cron {fields!r} never matches: none of its months has a day {given}")
    article = "an" if name == "hour" else "a"
    text = f"cron {fields!r}: {given!r} is not {article} {name}; it takes {_FIELDS[name]}"
    return TimingError(text, hint=_hint(given))


def _hint(given: str) -> str | None:
    if re.fullmatch(r"\w+-\w+", given):
        return "a range must ascend: write FRI-SUN as 5-7, and 22-2 as 22-23,0-2"
    if re.fullmatch(r"[A-Za-z]{3}L", given):
        return "write the last weekday of a month as a number: 5L is the last Friday"
    return "combine with - for ranges, / for steps and , for lists"

"""Time zones by their IANA name, and their clock changes.

Zone data comes from the system (`zoneinfo.TZPATH`), else from the `tzdata` package; `data_source`
returns which. UTC needs neither, so that a machine without zone data can run everything in UTC.
"""

from __future__ import annotations

import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from zoneinfo import ZoneInfo

from rota.errors import TimingError

# Files beside the zones that are not zones, or mean another zone on each machine.
_NOT_ZONES = {"localtime", "posixrules", "Factory"}
_OTHER_TREES = ("posix/", "right/")
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Shift:
    """A change of a zone's offset: at `at` (UTC) it goes from `before` to `after`."""

    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def wall_before(self) -> datetime:
        """The local time at that moment without the change."""
        return self.at.replace(tzinfo=None) + self.before

    @property
    def wall_after(self) -> datetime:
        """The local time at that moment."""
        return self.at.replace(tzinfo=None) + self.after


def zone(name: str) -> tzinfo:
    """Return the zone of an IANA name; an unknown one is an error, never silently UTC."""
    if name == "UTC":
        return UTC
    if name in _NOT_ZONES or str(name).startswith(_OTHER_TREES):
        raise _unknown(name)
    try:
        return ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
        raise _unknown(name) from None


def is_missing_here(name: str) -> bool:
    """Return whether this machine lacks data about a zone that others may have: the name is none of
    the known zones, in any case, and not one that is refused everywhere."""
    if name == "UTC" or name in _NOT_ZONES or name.startswith(_OTHER_TREES):
        return False
    return name.lower() not in _lowered()


@lru_cache(maxsize=1)
def _lowered() -> frozenset[str]:
    return frozenset(known.lower() for known in names())


def names() -> list[str]:
    """Return the names of all zones on this machine."""
    found = zoneinfo.available_timezones() - _NOT_ZONES
    return sorted(found | {"UTC"})


def data_source() -> str | None:
    """Return the source of zone data, with its release if known; None if there is no data.

    Workers with different releases may compute different times around a change of the rules.
    """
    for folder in map(Path, zoneinfo.TZPATH):
        if (folder / "Europe").is_dir():
            return _described(folder)
    try:
        return f"package tzdata {metadata.version('tzdata')}"
    except metadata.PackageNotFoundError:
        return None


def _described(folder: Path) -> str:
    try:
        with (folder / "tzdata.zi").open(encoding="ascii", errors="replace") as lines:
            first = lines.readline()
    except OSError:
        return str(folder)
    release = first.removeprefix("# version").strip() if first.startswith("# version") else ""
    return f"{folder} {release}".strip()


def _unknown(name: str) -> TimingError:
    known = names()
    if known == ["UTC"]:
        return TimingError(
            f"no time zone data on this machine: cannot look up {name!r}",
            hint="install the system's tzdata, or the Python package tzdata; UTC needs neither",
            field="timezone",
        )
    near = _nearest(str(name), known)
    hint = f"did you mean {' or '.join(near)}?" if near else "use an IANA name like Europe/Paris"
    return TimingError(f"unknown time zone {name!r}", hint=hint, field="timezone")


def _nearest(name: str, known: list[str]) -> list[str]:
    """Return similar names: first those in other case and bare city names, which are common
    inputs."""
    wanted = name.strip().casefold().replace(" ", "_")
    if wanted in ("", "z"):
        return ["UTC"] if wanted else []
    full = {it.casefold(): it for it in known}
    cities = {it.casefold().rpartition("/")[2]: it for it in known}
    exact = [table[wanted] for table in (full, cities) if wanted in table]
    if exact:
        return exact[:1]
    found: list[str] = []
    for table in (full, cities):
        found += [table[it] for it in get_close_matches(wanted, table, n=3, cutoff=0.75)]
    return list(dict.fromkeys(found))[:3]


def offset_at(at: datetime, tz: tzinfo) -> timedelta:
    return at.astimezone(tz).utcoffset() or timedelta()


def wall_at(at: datetime, tz: tzinfo) -> datetime:
    """Return the local time of the zone at that instant, without a zone."""
    return at.astimezone(tz).replace(tzinfo=None, fold=0)


def shift_over(wall: datetime, tz: tzinfo) -> Shift | None:
    """Return the change that makes this local time missing or repeated; None if it occurs exactly
    once."""
    before = wall.replace(tzinfo=tz, fold=0).utcoffset() or timedelta()
    after = wall.replace(tzinfo=tz, fold=1).utcoffset() or timedelta()
    if before == after:
        return None
    ends = ((wall - before).replace(tzinfo=UTC), (wall - after).replace(tzinfo=UTC))
    return Shift(_change_between(min(ends), max(ends), tz), before, after)


def steady_until(at: datetime, tz: tzinfo) -> datetime:
    """Return an instant up to which the zone's offset is the same as at `at`; never past a
    change."""
    for shift in shifts(tz, at.year):
        if shift.at > at:
            return shift.at
    return datetime(at.year + 1, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=4096)
def shifts(tz: tzinfo, year: int) -> tuple[Shift, ...]:
    """Return the changes of a zone in a year of UTC, found by comparing days.

    zoneinfo does not list them. Days are fine enough: in all of the zone data, no two changes of
    one zone are less than three days apart.
    """
    if tz is UTC:
        return ()
    found = []
    end = datetime(year + 1, 1, 1, tzinfo=UTC)
    # A change at the very start of a year belongs to that year: start a second before it.
    day = datetime(year, 1, 1, tzinfo=UTC) - _SECOND
    before = offset_at(day, tz)
    while day < end - _SECOND:
        following = min(day + timedelta(days=1), end - _SECOND)
        after = offset_at(following, tz)
        if after != before:
            found.append(Shift(_change_between(day, following, tz), before, after))
        day, before = following, after
    return tuple(found)


def _change_between(low: datetime, high: datetime, tz: tzinfo) -> datetime:
    """Return the first second in (low, high] with the offset of `high`."""
    target = offset_at(high, tz)
    while high - low > _SECOND:
        middle = low + (high - low) // (2 * _SECOND) * _SECOND
        if offset_at(middle, tz) == target:
            high = middle
        else:
            low = middle
    return high

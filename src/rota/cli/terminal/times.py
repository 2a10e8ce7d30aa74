"""Times and durations in words, in the viewer's zone."""

from __future__ import annotations

import os
from datetime import datetime
from zoneinfo import ZoneInfo

import typer

from rota.model.formatting import span, took
from rota.model.unreadable import Unreadable

__all__ = [
    "absolute",
    "ago",
    "both",
    "local",
    "shown",
    "span",
    "took",
    "use_environment",
    "use_zone",
    "zone",
    "zone_name",
]

VARIABLE = "ROTA_CLI_TIMEZONE"


class _Viewer:
    """The viewer's zone; None is the machine's."""

    zone: ZoneInfo | None = None
    is_asked_for = False


def use_environment() -> None:
    """Read TZ at the start of every command. A misspelt TZ would silently become UTC."""
    _Viewer.zone, _Viewer.is_asked_for = None, False
    if name := os.environ.get(VARIABLE):
        _Viewer.zone = _find(name, VARIABLE)
    elif "/" in (name := os.environ.get("TZ", "").removeprefix(":")) and name[0] != "/":
        _find(name, "TZ")


def use_zone(name: str, option: str) -> None:
    _Viewer.zone, _Viewer.is_asked_for = _find(name, option), True


def _find(name: str, source: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        message = f"unknown time zone {name!r}; write one such as Europe/Paris or UTC"
        raise typer.BadParameter(message, param_hint=f"'{source}'") from None


def zone() -> ZoneInfo | None:
    """Return the viewer's zone; None is the machine's."""
    return _Viewer.zone


def zone_name() -> str:
    """Return the name of the viewer's zone, for counts by hour; UTC if the machine's has no
    name."""
    if _Viewer.zone is not None:
        return _Viewer.zone.key
    name = os.environ.get("TZ", "").removeprefix(":")
    if not name:
        name = os.path.realpath("/etc/localtime").partition("zoneinfo/")[2]
    try:
        return ZoneInfo(name.removeprefix("Etc/")).key
    except (OSError, ValueError, KeyError):
        return "UTC"


def local(at: datetime) -> datetime:
    """Convert to the viewer's zone; a time without a zone is already in it."""
    if at.tzinfo is None and _Viewer.zone is not None:
        return at.replace(tzinfo=_Viewer.zone)
    return at.astimezone(_Viewer.zone)


def ago(at: datetime | None, now: datetime) -> str:
    if at is None:
        return ""
    if isinstance(at, Unreadable):
        return str(at)
    seconds = (now - at).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(-seconds)}"


def absolute(at: datetime | None) -> str:
    """Return the time in the viewer's zone."""
    return local(at).strftime("%Y-%m-%d %H:%M:%S %Z") if at else ""


def shown(at: datetime | None, now: datetime, is_absolute: bool) -> str:
    """Return a time for a list. A zone on the command line also selects absolute times."""
    return absolute(at) if is_absolute or _Viewer.is_asked_for else ago(at, now)


def both(at: datetime | None, now: datetime) -> str:
    if at is None or isinstance(at, Unreadable):
        return ago(at, now)
    return f"{absolute(at)} ({ago(at, now)})"

"""Times and durations as people say them, by the viewer's clocks."""

from __future__ import annotations

import os
from datetime import datetime
from zoneinfo import ZoneInfo

import typer

from rota.model.unreadable import Unreadable
from rota.model.words import span, took

__all__ = [
    "absolute", "ago", "both", "local", "shown", "span", "took", "use_environment", "use_zone",
    "zone", "zone_name",
]  # fmt: skip

VARIABLE = "ROTA_CLI_TIMEZONE"


class _Viewer:
    """Whose clocks; no zone: the machine's."""

    zone: ZoneInfo | None = None
    is_asked_for = False


def use_environment() -> None:
    """The start of every command. A misspelt TZ would silently become UTC."""
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
    """The viewer's; None: whatever the machine has."""
    return _Viewer.zone


def zone_name() -> str:
    """The viewer's by name, for what is counted by hours; UTC where the machine's has none."""
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
    """By the viewer's clocks; what has no zone was read from them."""
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
    """In the viewer's zone."""
    return local(at).strftime("%Y-%m-%d %H:%M:%S %Z") if at else ""


def shown(at: datetime | None, now: datetime, is_absolute: bool) -> str:
    """In a list. A zone that was named on the command line asks for absolute times, too."""
    return absolute(at) if is_absolute or _Viewer.is_asked_for else ago(at, now)


def both(at: datetime | None, now: datetime) -> str:
    if at is None or isinstance(at, Unreadable):
        return ago(at, now)
    return f"{absolute(at)} ({ago(at, now)})"

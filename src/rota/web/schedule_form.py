"""A schedule as the texts of a form, and back: each field is read by itself, so that its problem is
shown beside it. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any, Final

from rota.errors import InputError, TimingError
from rota.jobs.schedule_options import ScheduleArguments, columns
from rota.model.documents import ScheduleDocuments
from rota.model.durations import EXAMPLES, read_duration
from rota.model.schedule_info import ScheduleInfo
from rota.web.forms import Form, read_payload
from rota.web.page_scope import zone_named
from rota.web.words import refusal

# Field: the column that it shows, and its format.
FIELDS: Final[dict[str, tuple[str, str]]] = {
    "job": ("job", "text"),
    "description": ("description", "text"),
    "tags": ("tags", "words"),
    "metadata": ("metadata", "json"),
    "cron": ("cron", "text"),
    "every": ("interval_seconds", "span"),
    "at": ("run_at", "instant"),
    "init": ("init", "text"),
    "timezone": ("timezone", "text"),
    "gap": ("gap", "text"),
    "fold": ("fold", "text"),
    "every_from": ("every_from", "text"),
    "start_at": ("start_at", "instant"),
    "end_at": ("end_at", "instant"),
    "max_runs": ("max_runs", "count"),
    "jitter": ("jitter_seconds", "span"),
    "burst_allowed": ("burst_allowed", "flag"),
    "calendar": ("calendar", "text"),
    "on_closed": ("on_closed", "text"),
    "catch_up": ("catch_up", "text"),
    "catch_up_window": ("catch_up_seconds", "span"),
    "catch_up_limit": ("catch_up_limit", "count"),
    "grace": ("grace_seconds", "span"),
    "overlap": ("overlap", "text"),
    "max_concurrent_runs": ("max_concurrent_runs", "count"),
    "pause_after_failures": ("pause_after_failures", "count"),
    "requires": ("requires", "requires"),
    "shadow": ("is_shadow", "flag"),
    "delete_when_finished": ("delete_when_finished", "flag"),
    "enabled": ("is_enabled", "flag"),
    "payload": ("payload", "json"),
    "queue": ("queue", "text"),
    "priority": ("priority", "count"),
    "max_attempts": ("max_attempts", "count"),
    "timeout": ("timeout_seconds", "span"),
    "run_tags": ("run_tags", "words"),
    "run_metadata": ("run_metadata", "json"),
}
KINDS = ("cron", "every", "at", "init")
DOCUMENTS = ("payload", "run_metadata")
# Further fields that belong to only one kind of timing.
_ONLY_OF = {"every_from": "every", "gap": "cron", "fold": "cron"}
_INSTANTS = ("at", "start_at", "end_at")
# The initial values of a new schedule.
NEW = {
    "when": "cron", "cron": "0 9 * * *", "timezone": "UTC", "gap": "run_after", "fold": "first",
    "every_from": "start", "on_closed": "skip", "catch_up": "latest", "overlap": "skip",
    "init": "release", "enabled": "1", "grace": "1min", "catch_up_limit": "100",
    "max_concurrent_runs": "1",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Draft:
    """The texts of a form. `when` is the kind of timing; fields of other kinds are ignored."""

    texts: dict[str, str]

    @property
    def when(self) -> str:
        return self.texts["when"]

    @property
    def zone(self) -> tzinfo:
        return zone_named(self.texts["timezone"])

    def counts(self, name: str) -> bool:
        """Return whether the field belongs to the selected kind of timing."""
        if name in KINDS:
            return name == self.when
        return _ONLY_OF.get(name, self.when) == self.when


def new_draft(**texts: str) -> Draft:
    return Draft(dict.fromkeys(FIELDS, "") | NEW | texts)


def draft_of(stored: ScheduleInfo, documents: ScheduleDocuments) -> Draft:
    """Return the stored schedule; numbers keep their digits, which a reader of JSON may have
    rounded."""
    zone = zone_named(stored.timezone)
    texts = {
        name: _written(kind, getattr(stored, column), zone)
        for name, (column, kind) in FIELDS.items()
    }
    texts |= {name: getattr(documents, FIELDS[name][0]) or "" for name in DOCUMENTS if texts[name]}
    when = next(name for name in KINDS if getattr(stored, FIELDS[name][0]) is not None)
    texts["init"] = texts["init"] or NEW["init"]
    return Draft(texts | {"when": when})


def read_draft(form: Form) -> Draft:
    texts = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    when = form.get("when", "cron")
    return Draft(texts | {"when": when if when in KINDS else "cron"})


def digests(draft: Draft) -> dict[str, str]:
    """Return digests of the initial texts, to find the fields that the user has changed."""
    return {name: _digest(text) for name, text in draft.texts.items()}


def changed_since(draft: Draft, base: Mapping[str, str]) -> list[str]:
    """Return the changed fields. If the zone changes, times of day mean other instants."""
    found = [name for name in FIELDS if _digest(draft.texts[name]) != base.get(name)]
    found = [name for name in found if draft.counts(name)]
    if _digest(draft.when) != base.get("when") and draft.when not in found:
        found.append(draft.when)
    if "timezone" in found:
        found += [it for it in _INSTANTS if draft.texts[it] and draft.counts(it)]
    return list(dict.fromkeys(found))


def read_names(draft: Draft, base: Mapping[str, str]) -> list[str]:
    """Return the fields that must be valid. An unchanged document is left as it is."""
    return [
        name
        for name in FIELDS
        if draft.counts(name)
        and not (name in DOCUMENTS and _digest(draft.texts[name]) == base.get(name))
    ]


def _digest(text: str) -> str:
    return hashlib.blake2s(text.encode(), digest_size=6).hexdigest()


def arguments(draft: Draft, names: list[str]) -> tuple[ScheduleArguments, dict[str, str]]:
    """Return the arguments of these fields, and the problems of those that cannot be read."""
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name in names:
        try:
            value = read_field(name, draft)
            columns({name: value})  # type: ignore[misc]
            found[name] = value
        except (TimingError, InputError) as error:
            errors[name] = refusal(error)
    if "cron" in found:
        found["with_seconds"] = len(str(found["cron"] or "").split()) == 6
    return found, errors  # type: ignore[return-value]


def read_field(name: str, draft: Draft) -> Any:
    """Return the value of one field; None if it is empty, which means its default."""
    kind, text = FIELDS[name][1], draft.texts[name]
    if kind == "flag":
        return text == "1"
    if not text:
        if name in KINDS:
            raise TimingError(f"Required: {_WANTED[name]}.")
        return None
    match kind:
        case "span":
            return read_seconds(text)
        case "count":
            return _count(text)
        case "instant":
            return _instant(text, draft.zone)
        case "words":
            return [part.strip() for part in text.split(",") if part.strip()]
        case "json":
            return read_payload(text)
        case "requires":
            return [_requirement(part) for part in text.split(",") if part.strip()]
    return text


_WANTED = {
    "cron": "a cron expression, e.g. 0 9 * * 1-5 (09:00 on weekdays)",
    "every": "an interval, e.g. 15min, 1h or 1d",
    "at": "a date and a time",
    "init": "which starts of workers trigger it",
}


def read_seconds(text: str) -> float:
    """Read `90s`, `15min`, `1h 30min`; a number alone is seconds."""
    found = read_duration(text)
    if found is None:
        raise TimingError(f"write a duration, like {EXAMPLES}, not {text!r}")
    return found


def write_seconds(value: float) -> str:
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value and value % size == 0:
            return f"{value / size:.0f}{unit}"
    return f"{value:.6f}".rstrip("0").rstrip(".") + "s" if value else ""


def _count(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise TimingError(f"must be a whole number, not {text!r}")
    return int(text)


def _instant(text: str, zone: tzinfo) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise TimingError(
            f"write a date and a time, as in 2026-11-02 08:00, not {text!r}"
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=zone)


def _requirement(text: str) -> Any:
    name, _, within = text.strip().partition(" within ")
    return (name.strip(), read_seconds(within.strip())) if within else name.strip()


def _written(kind: str, value: Any, zone: tzinfo) -> str:
    if kind == "flag":
        return "1" if value else ""
    if value is None or value in ([], {}):
        return ""
    match kind:
        case "span":
            return write_seconds(float(value))
        case "instant":
            local = value.astimezone(zone).replace(tzinfo=None, microsecond=0)
            return str(local.isoformat(timespec="seconds" if local.second else "minutes"))
        case "words":
            return ", ".join(value)
        case "json":
            return json.dumps(value, indent=2, ensure_ascii=False)
        case "requires":
            return ", ".join(_required(item) for item in value)
    return str(value)


def _required(one: Mapping[str, Any]) -> str:
    within = one.get("within_seconds")
    name = str(one.get("name", ""))
    return name if within is None else f"{name} within {write_seconds(float(within))}"

"""A schedule as the texts of a form, and back: each field is read by itself, so that its problem is
shown beside it. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Any, Final

from rota.errors import InputError, TimingError
from rota.model.documents import ScheduleDocuments
from rota.model.fields import UNCHANGED, Argument, arguments_of
from rota.model.schedule_fields import KINDS
from rota.model.schedule_info import ScheduleInfo
from rota.operations.registry import commands_of, plan_of
from rota.web.forms import Form
from rota.web.operations import Input, input_of, text_of
from rota.web.page_scope import zone_named
from rota.web.words import refusal

# The fields of the form. Whether a cron expression has seconds is seen from its length.
FIELDS: Final[dict[str, Argument]] = {
    one.name: one
    for one in arguments_of(plan_of(commands_of("schedules"), "create"))
    if (one.name == "job" or one.default is UNCHANGED) and one.name != "has_seconds"
}
DOCUMENTS = ("payload", "run_metadata")
# Further fields that belong to only one kind of timing.
_ONLY_OF = {"every_from": "interval_seconds", "gap": "cron", "fold": "cron"}
_ON = "true"


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
    """The initial values of a new schedule."""
    usual = {name: _written(one, one.field.default, None) for name, one in FIELDS.items()}
    new = {"when": "cron", "cron": "0 9 * * *", "init": "release", "is_enabled": _ON}
    return Draft(usual | new | texts)


def draft_of(stored: ScheduleInfo, documents: ScheduleDocuments) -> Draft:
    """Return the stored schedule; numbers keep their digits, which a reader of JSON may have
    rounded."""
    zone = zone_named(stored.timezone)
    texts = {name: _written(one, getattr(stored, name), zone) for name, one in FIELDS.items()}
    texts |= {name: getattr(documents, name) or "" for name in DOCUMENTS if texts[name]}
    when = next(name for name in KINDS if getattr(stored, name) is not None)
    texts["init"] = texts["init"] or "release"
    return Draft(texts | {"when": when})


def read_draft(form: Form) -> Draft:
    texts = {name: form.get(name, "").replace("\r\n", "\n").strip() for name in FIELDS}
    when = form.get("when", "cron")
    return Draft(texts | {"when": when if when in KINDS else "cron"})


def inputs_of(draft: Draft, errors: Mapping[str, str]) -> dict[str, Input]:
    return {name: _input(one, draft.texts[name], errors.get(name)) for name, one in FIELDS.items()}


def _input(one: Argument, text: str, error: str | None) -> Input:
    made = replace(input_of(one, text, error), is_flag=one.kind == "flag")
    return replace(made, type="datetime-local") if one.kind == "instant" else made


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
        found += [
            name
            for name, one in FIELDS.items()
            if one.kind == "instant" and draft.texts[name] and draft.counts(name)
        ]
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


def settings(draft: Draft, names: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of these fields, and the problems of those that cannot be read."""
    found: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for name in names:
        try:
            found[name] = read_field(name, draft)
        except (TimingError, InputError) as error:
            errors[name] = refusal(error)
    if "cron" in found:
        found["has_seconds"] = len(str(found["cron"] or "").split()) == 6
    return found, errors


def read_field(name: str, draft: Draft) -> Any:
    """Return the value of one field; None if it is empty, which means its default."""
    one, text = FIELDS[name], draft.texts[name]
    if one.kind == "flag":
        return text == _ON
    if text:
        return one.parse(text, lambda at: at.replace(tzinfo=draft.zone))
    if name in KINDS:
        raise TimingError(f"Required: {_WANTED[name]}.", field=name)
    return None


_WANTED = {
    "cron": "a cron expression, e.g. 0 9 * * 1-5 (09:00 on weekdays)",
    "interval_seconds": "an interval, e.g. 15min, 1h or 1d",
    "run_at": "a date and a time",
    "init": "which starts of workers trigger it",
}


def _written(one: Argument, value: Any, zone: tzinfo | None) -> str:
    if one.kind == "flag":
        return _ON if value else ""
    if one.is_unset(value):
        return ""
    if value == {}:
        return "{}"
    if isinstance(value, datetime):
        local = value.astimezone(zone).replace(tzinfo=None, microsecond=0)
        return str(local.isoformat(timespec="seconds" if local.second else "minutes"))
    return text_of(one, value)

"""The editor of schedules: new ones, copies, and edits that never overwrite another user's."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import (
    InputError,
    PayloadError,
    RotaError,
    TimingError,
    UnknownJob,
    VersionConflict,
    WrongState,
)
from rota.model.schedule_info import ScheduleInfo
from rota.model.template import TemplateInfo
from rota.web.context import Page
from rota.web.cron_builder import Builder, build, read_builder
from rota.web.forms import Form, read_form
from rota.web.operations import Input
from rota.web.page_scope import PageScope
from rota.web.pages.schedule_actions import tenant_of
from rota.web.pages.schedules import path_of
from rota.web.schedule_form import (
    FIELDS,
    Draft,
    changed_since,
    digests,
    draft_of,
    inputs_of,
    new_draft,
    read_draft,
    read_names,
    settings,
)
from rota.web.schedule_preview import Coming, coming
from rota.web.schedule_values import label_of
from rota.web.words import refusal
from rota.web.zones import NAMES

_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Conflict:
    """The user who changed the schedule meanwhile, and for each field: the stored value, and that
    of this form."""

    actor: str
    at: datetime
    fields: list[tuple[str, str, str]]


@dataclass(frozen=True, slots=True)
class EditorPage(Page):
    """`schedule` is the stored one, None for a new one. `is_part`: a script asks for the side
    panel."""

    template: ClassVar[str] = "schedules/edit.html"
    section: ClassVar[str] = "schedules"

    heading: str
    action: str
    back: str
    schedule: ScheduleInfo | None
    name: str
    tenant: str
    texts: dict[str, str]
    inputs: dict[str, Input]
    base: str
    version: int
    errors: dict[str, str]
    cron: Builder
    coming: Coming
    changes: list[tuple[str, str, str]]
    conflict: Conflict | None
    reason: str
    templates: list[TemplateInfo]
    is_part: bool

    @property
    def title(self) -> str:
        return self.heading


@dataclass(frozen=True, slots=True)
class Editing:
    """One view of the editor: the stored schedule, the texts of the form, and those it was filled
    with."""

    schedule: ScheduleInfo | None
    stored: Draft | None
    draft: Draft
    base: dict[str, str]
    version: int = 0
    name: str = ""
    tenant: str = ""
    source: str | None = None
    reason: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    conflict: Conflict | None = None


async def new(request: Request) -> Response:
    """Show an empty form, or one with the job or template that the address names."""
    scope, given = PageScope(request), request.query_params
    texts = {key: given[key] for key in ("job", "cron", "timezone", "calendar") if key in given}
    draft = new_draft(**texts)
    return await _show(scope, Editing(None, None, draft, {}, tenant=given.get("tenant", "")))


async def duplicate(request: Request) -> Response:
    scope = PageScope(request)
    schedule, draft = await _stored(scope, scope.name(), tenant_of(request))
    name = f"{schedule.name[:190]}-copy"
    return await _show(scope, Editing(None, None, draft, {}, 0, name, schedule.tenant))


async def edit(request: Request) -> Response:
    scope = PageScope(request)
    schedule, draft = await _stored(scope, scope.name(), tenant_of(request))
    base = digests(draft)
    editing = Editing(
        schedule, draft, draft, base, schedule.version, schedule.name, schedule.tenant
    )
    return await _show(scope, editing)


async def _stored(scope: PageScope, name: str, tenant: str) -> tuple[ScheduleInfo, Draft]:
    schedule = await scope.schedules.get(name, tenant=tenant)
    documents = await scope.schedules.documents(name, tenant=tenant)
    return schedule, draft_of(schedule, documents)


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.create")
    form = await read_form(request)
    editing = await _read(scope, form, None, None)
    if _is_look(request, form) or editing.errors:
        return await _show(scope, editing)
    names = [name for name in FIELDS if editing.draft.counts(name) and name != "job"]
    given, _ = settings(editing.draft, names)
    try:
        await scope.schedules.create(
            editing.name,
            editing.draft.texts["job"],
            tenant=editing.tenant,
            reason=editing.reason or None,
            **given,
        )
    except _REFUSALS as error:
        return await _show(scope, _with_error(editing, error))
    return scope.go(path_of(editing.name, editing.tenant), f"Schedule {editing.name} created")


async def save(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("schedules.update")
    form = await read_form(request)
    schedule, stored = await _stored(scope, scope.name(), tenant_of(request))
    editing = await _read(scope, form, schedule, stored)
    if _is_look(request, form) or editing.errors:
        return await _show(scope, editing)
    changed = changed_since(editing.draft, editing.base)
    if not changed:
        return scope.go(path_of(schedule.name, schedule.tenant), "Nothing was changed")
    given, _ = settings(editing.draft, [name for name in changed if name != "job"])
    try:
        await scope.schedules.update(
            schedule.name,
            tenant=schedule.tenant,
            job=editing.draft.texts["job"] if "job" in changed else None,
            version=editing.version,
            reason=editing.reason or None,
            **given,
        )
    except VersionConflict:
        return await _show(scope, await _conflict(scope, editing))
    except _REFUSALS as error:
        return await _show(scope, _with_error(editing, error))
    count = f"{len(changed)} change{'' if len(changed) == 1 else 's'}"
    return scope.go(path_of(schedule.name, schedule.tenant), f"{count} of {schedule.name} saved")


_REFUSALS = (TimingError, InputError, UnknownJob, WrongState)


def _is_look(request: Request, form: Form) -> bool:
    """Return whether a script asks while the user types, or a button that saves nothing was
    pressed."""
    return "x-rota-part" in request.headers or "check" in form or "template" in form


async def _read(
    scope: PageScope, form: Form, schedule: ScheduleInfo | None, stored: Draft | None
) -> Editing:
    draft, base = read_draft(form), _base(form)
    template = None
    if "template" in form:
        template = (await scope.templates.get(form["template"])).cron
    line, source = read_builder(form, template)
    texts = draft.texts | {"cron": line} | ({"when": "cron"} if template else {})
    draft = Draft(texts)
    _, errors = settings(draft, read_names(draft, base))
    name = schedule.name if schedule else form.get("name", "").strip()
    if not 1 <= len(name) <= 200:
        errors["name"] = "The name must have 1 to 200 characters."
    if not draft.texts["job"]:
        errors["job"] = "Select the job that it runs."
    return Editing(
        schedule=schedule,
        stored=stored,
        draft=draft,
        base=base,
        version=int(form["version"]) if form.get("version", "").isdecimal() else 0,
        name=name,
        tenant=schedule.tenant if schedule else form.get("tenant", "").strip(),
        source=source,
        reason=form.get("reason", "").strip(),
        errors=errors,
    )


def _base(form: Form) -> dict[str, str]:
    try:
        found = json.loads(form.get("base", "{}"))
    except ValueError:
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def _with_error(editing: Editing, error: Exception) -> Editing:
    """Show the error beside its field; an error about several fields is shown on top."""
    where = "name" if isinstance(error, WrongState) else ""
    where = "job" if isinstance(error, UnknownJob) else where
    where = "payload" if isinstance(error, PayloadError) else where
    if isinstance(error, RotaError) and error.field in {*FIELDS, "name"}:
        where = str(error.field)
    text = refusal(error)
    return replace(editing, errors=editing.errors | {where: text})


async def _conflict(scope: PageScope, editing: Editing) -> Editing:
    """Keep the typed texts; the rest of the form shows what is stored now."""
    stored, now = await _stored(scope, editing.name, editing.tenant)
    mine = set(changed_since(editing.draft, editing.base)) | {"when"}
    texts = {
        name: editing.draft.texts[name] if name in mine else text
        for name, text in now.texts.items()
    }
    theirs = set(changed_since(now, editing.base))
    fields = [
        (label_of(name), _cut(now.texts[name]), _cut(texts[name]))
        for name in FIELDS
        if name in theirs or (name in mine and texts[name] != now.texts[name])
    ]
    last = (await scope.schedules.edits(stored.name, tenant=stored.tenant, limit=1)).items
    actor, at = (
        (last[0].actor, last[0].at) if last else (stored.updated_by or "", stored.updated_at)
    )
    return replace(
        editing,
        schedule=stored,
        stored=now,
        draft=Draft(texts),
        base=digests(now),
        version=stored.version,
        conflict=Conflict(actor, at, fields),
        source=None,
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


async def _show(scope: PageScope, editing: Editing) -> Response:
    schedule, draft = editing.schedule, editing.draft
    shown = await coming(scope, draft, schedule)
    errors = ({} if shown.field is None else {shown.field: shown.problem or ""}) | editing.errors
    is_part = "x-rota-part" in scope.request.headers
    if is_part:  # what has not been typed yet is missing only when it is to be saved
        errors = {name: text for name, text in errors.items() if draft.texts.get(name, "x")}
    shown_errors = errors if _is_post(scope.request) else {}
    is_new = schedule is None
    page = EditorPage(
        heading="New schedule" if is_new else f"Edit {editing.name}",
        action="/schedules/new" if is_new else path_of(editing.name, editing.tenant, "edit"),
        back="/schedules" if is_new else path_of(editing.name, editing.tenant),
        schedule=schedule,
        name=editing.name,
        tenant=editing.tenant,
        texts=draft.texts,
        inputs=await _inputs(scope, draft, shown_errors),
        base=json.dumps(editing.base),
        version=editing.version,
        errors=shown_errors,
        cron=build(draft.texts["cron"], editing.source),
        coming=shown,
        changes=_changes(editing),
        conflict=editing.conflict,
        reason=editing.reason,
        templates=await scope.templates.list(),
        is_part=is_part,
    )
    return await scope.show(page, status=_status(scope.request, editing))


async def _inputs(scope: PageScope, draft: Draft, errors: dict[str, str]) -> dict[str, Input]:
    """The inputs of the form, with what to choose from."""
    found = inputs_of(draft, errors)
    options = {
        "timezone": NAMES,
        "calendar": [calendar.name for calendar in await scope.calendars.list()],
        "job": [job.name for job in (await scope.jobs.page(limit=1000)).items],
    }
    return found | {name: replace(found[name], options=given) for name, given in options.items()}


def _is_post(request: Request) -> bool:
    return request.method == "POST"


def _status(request: Request, editing: Editing) -> int:
    if "x-rota-part" in request.headers or not _is_post(request):
        return 200
    if editing.conflict is not None:
        return 409
    return 422 if editing.errors else 200


def _changes(editing: Editing) -> list[tuple[str, str, str]]:
    if editing.stored is None:
        return []
    before = editing.stored.texts
    texts = editing.draft.texts
    return [
        (label_of(name), _cut(before[name]) or "none", _cut(texts[name]))
        for name in changed_since(editing.draft, editing.base)
        if before[name] or texts[name]
    ]


routes = [
    Route("/schedules/new", new),
    Route("/schedules/new", create, methods=["POST"]),
    Route("/schedules/{name}/duplicate", duplicate),
    Route("/schedules/{name}/edit", edit),
    Route("/schedules/{name}/edit", save, methods=["POST"]),
]

"""Enqueuing a run: a form made from the schema of the job's payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, PayloadError, UnknownJob
from rota.model.job import JobInfo
from rota.model.run import RunInfo
from rota.web.context import Page
from rota.web.forms import Form, read_form, read_payload, read_span
from rota.web.page_scope import PageScope, zone_of
from rota.web.payload_form import (
    PREFIX,
    PayloadField,
    as_text,
    blamed,
    fields_of,
    read_fields,
)
from rota.web.words import refusal

OPTIONS = (
    "queue",
    "priority",
    "run_at",
    "expires_in",
    "key",
    "tenant",
    "tags",
    "max_attempts",
    "timeout",
    "metadata",
)


@dataclass(frozen=True, slots=True)
class NewRunPage(Page):
    """`fields` are those of the payload; if the schema has none, or on request, the payload is one
    JSON text."""

    template: ClassVar[str] = "runs/new.html"
    section: ClassVar[str] = "runs"

    jobs: list[str]
    job: JobInfo | None
    source: int | None
    fields: list[PayloadField]
    is_json: bool
    payload: str
    options: dict[str, str]
    errors: dict[str, str]
    error: str | None
    json_path: str

    @property
    def title(self) -> str:
        return "Enqueue a run"


async def ask(request: Request) -> Response:
    scope = PageScope(request)
    source = await _source(scope, request)
    name = source.job if source else request.query_params.get("job", "")
    job = await scope.jobs.get(name) if name else None
    given = dict(source.payload) if source else (job.default_payload if job else None) or {}
    options = _options_of(source) if source else dict(request.query_params)
    is_json = request.query_params.get("as") == "json"
    text = (await scope.runs.documents(source.id)).payload if source else ""
    page = await _page(scope, job, is_json=is_json, values=given, options=options, source=source)
    return await scope.show(replace(page, payload=text or page.payload))


async def _source(scope: PageScope, request: Request) -> RunInfo | None:
    """Return the run that is repeated as a new one."""
    given = request.query_params.get("from", "")
    return await scope.runs.get(int(given)) if given.isdecimal() and len(given) < 19 else None


def _options_of(run: RunInfo) -> dict[str, str]:
    return {
        "queue": run.queue,
        "priority": str(run.priority),
        "tenant": run.tenant,
        "tags": ", ".join(run.tags),
    }


async def _page(
    scope: PageScope,
    job: JobInfo | None,
    *,
    is_json: bool,
    values: Mapping[str, Any] | None = None,
    texts: Mapping[str, str] | None = None,
    options: Mapping[str, str],
    source: RunInfo | None = None,
    errors: Mapping[str, str] | None = None,
    error: str | None = None,
) -> NewRunPage:
    wrong = dict(errors or {})
    fields = fields_of(job.payload_schema) if job else []
    known = {field.name for field in fields}
    is_json = is_json or not fields or any(name not in known for name in values or {})
    shown = [
        replace(field, value=_value(field, values or {}, texts), error=wrong.get(field.name))
        for field in fields
    ]
    back = "" if job is None else f"&job={job.name}"
    return NewRunPage(
        jobs=[one.name for one in await scope.jobs.list() if one.deleted_from_code_at is None],
        job=job,
        source=source.id if source else None,
        fields=[] if is_json else shown,
        is_json=is_json,
        payload=(texts or {}).get("payload") or as_text(dict(values or {}), "json"),
        options={name: options.get(name, "") for name in OPTIONS},
        errors=wrong,
        error=error,
        json_path=f"/runs/new?from={source.id}" if source else f"/runs/new?{back[1:]}",
    )


def _value(one: PayloadField, values: Mapping[str, Any], texts: Mapping[str, str] | None) -> str:
    if texts is not None:
        return texts.get(PREFIX + one.name, "")
    return as_text(values[one.name], one.kind) if values.get(one.name) is not None else ""


async def enqueue(request: Request) -> Response:
    scope, form = PageScope(request), await read_form(request)
    scope.check("runs.enqueue")
    try:
        job = await scope.jobs.get(form.get("job", ""))
    except UnknownJob as error:
        page = await _page(scope, None, is_json=False, options=form, error=refusal(error))
        return await scope.show(page, status=422)
    errors, rest, run = await _try(scope, request, job, form)
    if run is None:
        page = await _page(
            scope,
            job,
            is_json="payload" in form,
            texts=form,
            options=form,
            errors=errors,
            error="; ".join(rest) or None,
        )
        return await scope.show(page, status=422)
    run_id, is_duplicate = run
    text = f"Run {run_id} already holds this key" if is_duplicate else f"Run {run_id} is enqueued"
    return scope.go(f"/runs/{run_id}", text)


async def _try(
    scope: PageScope, request: Request, job: JobInfo, form: Form
) -> tuple[dict[str, str], list[str], tuple[int, bool] | None]:
    """Return the problems by field, other problems, or the run."""
    fields, zone = fields_of(job.payload_schema), zone_of(request)
    errors: dict[str, str] = {}
    payload: dict[str, Any] = {}
    try:
        if "payload" in form:
            payload = read_payload(form["payload"]) or {}
        else:
            payload, errors = read_fields(fields, form, zone)
    except PayloadError as error:
        errors["payload"] = refusal(error)
    options = _read_options(form, zone, errors)
    if errors:
        return errors, [], None
    try:
        run = await scope.runs.enqueue(job.name, payload, **options)
    except InputError as error:
        names = {field.name for field in fields} if "payload" not in form else set()
        by_field, rest = blamed(error, names)
        return by_field, rest, None
    return {}, [], (run.id, run.is_duplicate)


def _read_options(form: Form, zone: Any, errors: dict[str, str]) -> Any:
    found: dict[str, Any] = {name: form.text(name) for name in ("queue", "key", "tenant")}
    for name in ("priority", "max_attempts"):
        text = form.text(name)
        if text is not None and not text.isdecimal():
            errors[name] = "A whole number, such as 5."
        elif text is not None:
            found[name] = int(text[:18])
    if (text := form.text("run_at")) is not None:
        try:
            at = datetime.fromisoformat(text)
            found["run_at"] = at if at.tzinfo is not None else at.replace(tzinfo=zone)
        except ValueError:
            errors["run_at"] = "A date and time, such as 2026-01-31T14:30."
    if (text := form.text("tags")) is not None:
        found["tags"] = [tag.strip() for tag in text.split(",") if tag.strip()]
    return found | _read_more(form, errors)


def _read_more(form: Form, errors: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("expires_in", "timeout"):
        if (text := form.text(name)) is not None:
            found[name] = read_span(text)
            if found[name] is None:
                errors[name] = "A duration, such as 90s, 15min or 2h."
    if (text := form.text("metadata")) is not None:
        try:
            found["metadata"] = read_payload(text)
        except PayloadError as error:
            errors["metadata"] = refusal(error)
    return found


routes = [
    Route("/runs/new", ask),
    Route("/runs/new", enqueue, methods=["POST"]),
]

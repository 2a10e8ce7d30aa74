"""Editing the settings of a job: the same fields as `rota jobs update`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, PayloadError, VersionConflict
from rota.model.audit import AuditEntry
from rota.model.formatting import plural
from rota.model.job import JobInfo
from rota.web.context import Page
from rota.web.forms import Form, read_form
from rota.web.job_form import read_changes, settings_of_job, texts_of
from rota.web.job_text import retry_words
from rota.web.operations import Input, input_of
from rota.web.page_scope import PageScope
from rota.web.pages.jobs import path_of
from rota.web.words import refusal


@dataclass(frozen=True, slots=True)
class JobEditPage(Page):
    """`inputs` is what the fields show, `now` what is stored. `rival` is the user who saved changes
    while this form was open."""

    template: ClassVar[str] = "jobs/edit.html"
    section: ClassVar[str] = "jobs"

    job: JobInfo
    path: str
    inputs: list[Input]
    now: dict[str, str]
    reason: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    rival: AuditEntry | None = None
    is_late: bool = False

    @property
    def retries(self) -> str:
        """When a run that keeps failing is retried, in words; empty if the job says it itself."""
        return retry_words(self.job.backoff, self.job.max_attempts - 1)

    @property
    def title(self) -> str:
        return f"Edit {self.job.name}"


def _page(
    job: JobInfo, values: dict[str, str], now: dict[str, str], reason: str = "", **more: Any
) -> JobEditPage:
    errors = more.get("errors", {})
    inputs = [input_of(one, values[one.name], errors.get(one.name)) for one in settings_of_job(job)]
    return JobEditPage(job, path_of(job.name), inputs, now, reason, **more)


async def edit(request: Request) -> Response:
    scope = PageScope(request)
    job = await scope.jobs.get(scope.name())
    texts = texts_of(job, settings_of_job(job))
    return await scope.show(_page(job, texts, texts))


async def save(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("jobs.update")
    form = await read_form(request)
    job = await scope.jobs.get(scope.name())
    # Compare with the values that were shown: a field that another user has changed meanwhile is
    # not a change of this form.
    settings = settings_of_job(job)
    shown = {name: form.get(f"was_{name}", text) for name, text in texts_of(job, settings).items()}
    changes, wrong = read_changes(form, shown, settings)
    if wrong:
        return await _again(scope, job, form, wrong)
    if not changes:
        return scope.go(path_of(job.name), "Nothing was changed")
    try:
        await scope.jobs.update(
            job.name, version=_version(form, job), reason=form.text("reason"), **changes
        )
    except VersionConflict:
        return await _late(scope, form)
    except PayloadError as error:
        return await _again(scope, job, form, {"default_payload": refusal(error)})
    except InputError as error:
        return await _again(scope, job, form, {error.field or "all": refusal(error)})
    return scope.go(path_of(job.name), f"{plural(len(changes), 'setting')} of {job.name} saved")


def _version(form: Form, job: JobInfo) -> int:
    text = form.get("version", "")
    return int(text) if text.isdecimal() and len(text) < 19 else job.version


async def _again(scope: PageScope, job: JobInfo, form: Form, errors: dict[str, str]) -> Response:
    now = texts_of(job, settings_of_job(job))
    values = {name: form.get(name, text) for name, text in now.items()}
    shown = {name: form.get(f"was_{name}", text) for name, text in now.items()}
    page = _page(job, values, shown, form.get("reason", ""), errors=errors)
    return await scope.show(page, status=422)


async def _late(scope: PageScope, form: Form) -> Response:
    """Show both: the changes that another user saved, and the texts of this form."""
    job = await scope.jobs.get(scope.name())
    deeds = await scope.audit.list(object_type="job", object_id=job.name, limit=1)
    now = texts_of(job, settings_of_job(job))
    mine = {
        name: form[name] if form.get(name, text) != form.get(f"was_{name}", text) else text
        for name, text in now.items()
    }
    rival = deeds[0] if deeds else None
    page = _page(job, mine, now, form.get("reason", ""), rival=rival, is_late=True)
    return await scope.show(page, status=409)


routes = [Route("/jobs/{name}/edit", edit), Route("/jobs/{name}/edit", save, methods=["POST"])]

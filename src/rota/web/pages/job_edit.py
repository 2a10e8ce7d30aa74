"""Editing the settings of a job: the same fields as `rota jobs update`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, JobError, PayloadError, VersionConflict
from rota.model.audit import AuditEntry
from rota.model.job import JobInfo
from rota.model.log import LEVELS
from rota.model.words import plural
from rota.web.context import Page
from rota.web.forms import Form, read_form
from rota.web.job_form import field_of, fields_of, read_changes, texts_of
from rota.web.page_scope import PageScope
from rota.web.pages.jobs import path_of
from rota.web.refusals import refusal


@dataclass(frozen=True, slots=True)
class JobEditPage(Page):
    """`values` is what the fields show, `now` what is stored. `rival` is the user who saved changes
    while this form was open."""

    template: ClassVar[str] = "jobs/edit.html"
    section: ClassVar[str] = "jobs"

    job: JobInfo
    path: str
    levels: tuple[str, ...]
    values: dict[str, str]
    now: dict[str, str]
    reason: str = ""
    errors: dict[str, str] = field(default_factory=dict)
    rival: AuditEntry | None = None
    is_late: bool = False

    @property
    def title(self) -> str:
        return f"Edit {self.job.name}"


async def edit(request: Request) -> Response:
    scope = PageScope(request)
    job = await scope.jobs.get(scope.name())
    texts = texts_of(job)
    return await scope.show(JobEditPage(job, path_of(job.name), LEVELS, texts, texts))


async def save(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("jobs.update")
    form = await read_form(request)
    job = await scope.jobs.get(scope.name())
    # Compare with the values that were shown: a field that another user has changed meanwhile is
    # not a change of this form.
    shown = {name: form.get(f"was_{name}", text) for name, text in texts_of(job).items()}
    changes, wrong = read_changes(form, shown, fields_of(job))
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
    except (JobError, InputError) as error:
        return await _again(scope, job, form, {field_of(str(error)) or "all": refusal(error)})
    return scope.go(path_of(job.name), f"{plural(len(changes), 'setting')} of {job.name} saved")


def _version(form: Form, job: JobInfo) -> int:
    text = form.get("version", "")
    return int(text) if text.isdecimal() and len(text) < 19 else job.version


async def _again(scope: PageScope, job: JobInfo, form: Form, errors: dict[str, str]) -> Response:
    now = texts_of(job)
    page = JobEditPage(
        job,
        path_of(job.name),
        LEVELS,
        {name: form.get(name, text) for name, text in now.items()},
        {name: form.get(f"was_{name}", text) for name, text in now.items()},
        form.get("reason", ""),
        errors,
    )
    return await scope.show(page, status=422)


async def _late(scope: PageScope, form: Form) -> Response:
    """Show both: the changes that another user saved, and the texts of this form."""
    job = await scope.jobs.get(scope.name())
    deeds = await scope.audit.list(object_type="job", object_id=job.name, limit=1)
    now = texts_of(job)
    mine = {
        name: form[name] if form.get(name, text) != form.get(f"was_{name}", text) else text
        for name, text in now.items()
    }
    page = JobEditPage(
        job, path_of(job.name), LEVELS, mine, now, form.get("reason", ""),
        rival=deeds[0] if deeds else None, is_late=True,
    )  # fmt: skip
    return await scope.show(page, status=409)


routes = [Route("/jobs/{name}/edit", edit), Route("/jobs/{name}/edit", save, methods=["POST"])]

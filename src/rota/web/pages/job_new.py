"""A new job that calls a function of the database, chosen from those that can be called."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, JobError, PayloadError, WrongState
from rota.model.job import JobFunction
from rota.web.context import Page
from rota.web.forms import Form, read_form
from rota.web.job_form import read_changes
from rota.web.page_scope import PageScope
from rota.web.pages.jobs import path_of
from rota.web.refusals import refusal

FIELDS = ("description", "queue", "priority", "max_attempts", "timeout", "default_payload", "tags")
_ALL = ("name", "function", "run_as", "transaction_mode", "reason", *FIELDS)
_SHOWN = {"queue": "default", "priority": "5", "max_attempts": "3"}


@dataclass(frozen=True, slots=True)
class NewJobPage(Page):
    """`functions` are the functions that qualify; `values` are the texts of the fields."""

    template: ClassVar[str] = "jobs/new.html"
    section: ClassVar[str] = "jobs"

    functions: list[JobFunction]
    values: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return "New SQL job"


async def new(request: Request) -> Response:
    scope = PageScope(request)
    chosen = {"function": request.query_params.get("function", "")}
    shown = dict.fromkeys(_ALL, "") | _SHOWN | chosen
    return await scope.show(NewJobPage(await scope.jobs.functions(), shown))


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("jobs.create")
    form = await read_form(request)
    name, function = form.text("name") or "", form.text("function") or ""
    settings, errors = _read(form)
    if not name:
        errors["name"] = "Enter a name."
    if not function:
        errors["function"] = "Choose a function."
    if not errors:
        try:
            await scope.jobs.create(name, function, reason=form.text("reason"), **settings)
            return scope.go(path_of(name), f"Job {name} is created")
        except PayloadError as error:
            errors["default_payload"] = refusal(error)
        except (JobError, InputError, WrongState) as error:
            errors["all"] = refusal(error)
    shown = {key: form.get(key, "") for key in _ALL}
    page = NewJobPage(await scope.jobs.functions(), shown, errors)
    return await scope.show(page, status=422)


def _read(form: Form) -> tuple[dict[str, Any], dict[str, str]]:
    given = {key: form.get(key, "") for key in FIELDS}
    settings, errors = read_changes(given, dict.fromkeys(FIELDS, ""), FIELDS)
    run_as = form.text("run_as")
    mode = "none" if form.get("transaction_mode") == "none" else "whole"
    return settings | {"run_as": run_as, "transaction_mode": mode}, errors


routes = [Route("/jobs/new", new), Route("/jobs/new", create, methods=["POST"])]

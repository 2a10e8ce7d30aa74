"""A new job that calls a function of the database, chosen from those that can be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, PayloadError, WrongState
from rota.jobs.job_settings import job_settings
from rota.model.fields import Argument
from rota.model.job import JobFunction
from rota.web.context import Page
from rota.web.forms import read_form
from rota.web.job_form import read_changes
from rota.web.operations import Input, input_of
from rota.web.page_scope import PageScope
from rota.web.pages.jobs import path_of
from rota.web.words import refusal

_NAMES = (
    "description",
    "queue",
    "priority",
    "max_attempts",
    "timeout_seconds",
    "default_payload",
    "tags",
    "run_as",
    "transaction_mode",
)
_EMPTY = dict.fromkeys((*_NAMES, "name", "function_name", "reason"), "")
_SHOWN = {"queue": "default", "priority": "5", "max_attempts": "3", "transaction_mode": "whole"}


@dataclass(frozen=True, slots=True)
class NewJobPage(Page):
    """`functions` are the functions that qualify."""

    template: ClassVar[str] = "jobs/new.html"
    section: ClassVar[str] = "jobs"

    functions: list[JobFunction]
    inputs: list[Input]
    values: dict[str, str]
    errors: dict[str, str]

    @property
    def title(self) -> str:
        return "New SQL job"


async def _page(
    scope: PageScope, values: dict[str, str], errors: dict[str, str] | None = None
) -> NewJobPage:
    texts, wrong = _EMPTY | values, errors or {}
    inputs = [input_of(one, texts[one.name], wrong.get(one.name)) for one in _settings()]
    return NewJobPage(await scope.jobs.functions(), inputs, texts, wrong)


def _settings() -> list[Argument]:
    return [job_settings()[name] for name in _NAMES]


async def new(request: Request) -> Response:
    scope = PageScope(request)
    chosen = {"function_name": request.query_params.get("function", "")}
    return await scope.show(await _page(scope, _SHOWN | chosen))


async def create(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("jobs.create")
    form = await read_form(request)
    name, function = form.text("name") or "", form.text("function_name") or ""
    settings, errors = read_changes(form, dict.fromkeys(_NAMES, ""), _settings())
    if not name:
        errors["name"] = "Enter a name."
    if not function:
        errors["function_name"] = "Choose a function."
    if not errors:
        try:
            await scope.jobs.create(name, function, reason=form.text("reason"), **settings)
            return scope.go(path_of(name), f"Job {name} is created")
        except PayloadError as error:
            errors["default_payload"] = refusal(error)
        except (InputError, WrongState) as error:
            errors[error.field or "all"] = refusal(error)
    return await scope.show(await _page(scope, dict(form), errors), status=422)


routes = [Route("/jobs/new", new), Route("/jobs/new", create, methods=["POST"])]

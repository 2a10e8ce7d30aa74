"""A declared operation on several targets, after one question: `GET /selected/queues?verb=pause`.
Targets whose state does not fit are left alone, as the list counts them.

Each target is named by its part of an address: `mail`, `digest?tenant=acme`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import FilterError, QueueNotFound, RotaError, ScheduleNotFound
from rota.operations.registry import commands_of, operations_of
from rota.web.context import Page
from rota.web.forms import Form, inside, read_form
from rota.web.operations import Input, OperationForm, show_time
from rota.web.page_scope import PageScope
from rota.web.time_text import plural
from rota.web.words import refusal

MOST = 500
# The verbs that fit the state of a record.
Fitting = Callable[[Any], Sequence[str]]


@dataclass(frozen=True, slots=True)
class SelectedPage(Page):
    template: ClassVar[str] = "selected.html"

    many: str
    verb: str
    heading: str
    about: str
    picks: list[tuple[str, str]]
    inputs: list[Input]
    unfit: str
    back: str
    error: str | None
    is_dangerous: bool

    @property
    def title(self) -> str:
        return self.heading


def selected_of(many: str, verbs: Sequence[str], fitting: Fitting) -> Iterator[Route]:
    selected = _Selected(many, verbs, fitting)
    yield Route(f"/selected/{many}", selected.ask)
    yield Route(f"/selected/{many}", selected.act, methods=["POST"])


class _Selected:
    def __init__(self, many: str, verbs: Sequence[str], fitting: Fitting) -> None:
        commands = commands_of(many)
        self._noun, self._fitting = commands.noun, fitting
        self._forms = {
            one.verb: OperationForm(commands.noun, one)
            for one in operations_of(commands, "web")
            if one.verb in verbs
        }

    async def ask(self, request: Request) -> Response:
        given = request.query_params
        form, picks = self._read(given.get("verb", ""), given.getlist("pick"))
        back = inside(given.get("back", f"/{self._noun.many}"))
        return await self._show(PageScope(request), form, picks, back, {}, {})

    async def act(self, request: Request) -> Response:
        scope, given = PageScope(request), await read_form(request)
        form, picks = self._read(given.get("verb", ""), given.all("pick"))
        scope.check(f"{self._noun.many}.{form.operation.verb}")
        back = inside(given.get("back", f"/{self._noun.many}"))
        arguments, problems = form.read(given, request)
        if problems:
            return await self._show(scope, form, picks, back, given, problems)
        refused = [
            f"{named(pick)}: {why}"
            for pick in picks
            if (why := await self._perform(scope, form, pick, arguments, given)) is not None
        ]
        done = len(picks) - len(refused)
        said = f"{form.operation.verb.capitalize()}: {plural(done, *self._words)}"
        if refused:
            said += f"; {len(refused)} not: {refused[0]}"
        return scope.go(back, said)

    @property
    def _words(self) -> tuple[str, str]:
        return self._noun.one, self._noun.many

    def _read(self, verb: str, picks: list[str]) -> tuple[OperationForm, list[str]]:
        form = self._forms.get(verb)
        if form is None:
            raise FilterError(
                f"unknown action {verb!r}", hint=f"choose from {', '.join(self._forms)}"
            )
        if not picks or len(picks) > MOST:
            raise FilterError(f"no {self._noun.many} are selected", hint=f"select 1 to {MOST}")
        return form, list(dict.fromkeys(picks))

    async def _perform(
        self,
        scope: PageScope,
        form: OperationForm,
        pick: str,
        arguments: dict[str, Any],
        given: Form,
    ) -> str | None:
        """Return why nothing was changed; None if something was."""
        operation, where = form.operation, self._where(form, pick)
        perform = getattr(getattr(scope, self._noun.many), operation.verb)
        try:
            record = await self._record(scope, form, pick)
            is_changed = operation.verb in self._fitting(record)
            if is_changed:
                result = await perform(**where, **arguments, reason=given.text("reason"))
                is_changed = not operation.is_switch or operation.is_changed(result)
        except RotaError as error:
            return refusal(error)
        return None if is_changed else operation.says(record, False, show_time(scope))

    async def _record(self, scope: PageScope, form: OperationForm, pick: str) -> Any:
        found = await getattr(scope, self._noun.many).get(**self._where(form, pick))
        return self._noun.record_of(found)

    async def _fits(self, scope: PageScope, form: OperationForm, pick: str) -> bool:
        """What is not found is told when it is acted on."""
        try:
            record = await self._record(scope, form, pick)
        except (QueueNotFound, ScheduleNotFound):
            return True
        return form.operation.verb in self._fitting(record)

    def _where(self, form: OperationForm, pick: str) -> dict[str, Any]:
        name, _, query = pick.partition("?")
        found: dict[str, Any] = {form.operation.target.name: unquote(name)}
        if form.operation.has_tenant:
            found["tenant"] = parse_qs(query).get("tenant", [""])[0]
        return found

    async def _show(
        self,
        scope: PageScope,
        form: OperationForm,
        picks: list[str],
        back: str,
        texts: Any,
        problems: dict[str, str],
    ) -> Response:
        operation = form.operation
        fitting = [pick for pick in picks if await self._fits(scope, form, pick)]
        unfit = len(picks) - len(fitting)
        if not fitting:
            raise FilterError(f"no selected {self._noun.one} is in a state for this")
        picks = fitting
        page = SelectedPage(
            self._noun.many,
            operation.verb,
            f"{operation.verb.capitalize()} {plural(len(picks), *self._words)}",
            operation.summary,
            [(pick, named(pick)) for pick in picks],
            form.inputs(texts, problems),
            f"{plural(unfit, f'selected {self._noun.one}')} left alone" if unfit else "",
            back,
            problems.get(""),
            operation.is_dangerous,
        )
        section = (self._noun.home or self._noun.many).lstrip("/")
        return await scope.show(page, status=422 if problems else 200, section=section)


def named(pick: str) -> str:
    """Return the name for people, with its tenant if it has one."""
    name, _, query = pick.partition("?")
    tenant = parse_qs(query).get("tenant", [""])[0]
    return f"{tenant}/{unquote(name)}" if tenant else unquote(name)

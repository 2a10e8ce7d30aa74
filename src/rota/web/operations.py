"""The confirmation page of declared operations: one form for all of them.

`GET /queues/{name}/pause` asks, and says what it means for this queue; `POST` acts, and goes back
to the page of the target. What creates something has `GET /limits/new` too. An operation without a
target has `GET /cleanup/add-recipe`; the address may hold values that its form begins with. An
operation that takes `dry_run` has a button to count first.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import InputError, TimingError, UnknownJob, WrongState
from rota.model.durations import write_duration
from rota.model.fields import UNCHANGED, Argument
from rota.model.formatting import plain
from rota.operations.command_line import line_of
from rota.operations.registry import Noun, Operation, ShowTime, commands_of, operations_of
from rota.web import time_text
from rota.web.context import Page
from rota.web.forms import Form, read_form
from rota.web.page_scope import PageScope, zone_of
from rota.web.words import refusal

# The argument of a dry run.
PREVIEW = "dry_run"
REASON = "Enter a reason. It is kept in the audit."
# The texts that a form begins with, by field.
Start = Callable[[PageScope, Any], Awaitable[Mapping[str, str]]]
# Values to choose from, by field.
Suggest = Callable[[PageScope], Awaitable[Mapping[str, Sequence[str]]]]


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the form, with what was typed and what is wrong with it."""

    name: str
    label: str
    value: str = ""
    small: str = ""
    hint: str = ""
    choices: Mapping[str, str] | None = None
    is_required: bool = False
    is_flag: bool = False
    is_long: bool = False
    error: str | None = None
    options: Sequence[str] = ()
    type: str = "text"


@dataclass(frozen=True, slots=True)
class OperationPage(Page):
    template: ClassVar[str] = "operation.html"

    heading: str
    button: str
    name: str
    action: str
    back: str
    about: str
    before: str
    inputs: list[Input]
    command: str
    error: str | None = None
    is_dangerous: bool = False
    has_preview: bool = False

    @property
    def title(self) -> str:
        return self.heading


def show_time(scope: PageScope) -> ShowTime:
    zone = zone_of(scope.request)
    return lambda at: time_text.absolute(at, zone)


def path_of(noun: str, key: str | int, tenant: str = "") -> str:
    query = "?" + urlencode({"tenant": tenant}) if tenant else ""
    return f"/{noun}/{quote(str(key), safe='')}{query}"


def others_of(many: str, placed: Collection[str]) -> list[tuple[str, str]]:
    """The verb and the title of the operations that a page has not placed by hand."""
    return [
        (one.verb, one.title or one.verb.capitalize())
        for one in operations_of(commands_of(many))
        if one.verb not in placed
    ]


def routes_of(
    many: str, *, suggests: Mapping[str, Suggest] | None = None, **starts: Start
) -> Iterator[Route]:
    """The routes of all operations of a noun, except those made by hand. `starts` is
    what the form of a verb begins with; a text that stays as it was is not passed. `suggests` has
    values to choose from, by verb."""
    commands = commands_of(many)
    for operation in operations_of(commands, "web"):
        suggest = (suggests or {}).get(operation.verb)
        form = OperationForm(commands.noun, operation, starts.get(operation.verb), suggest)
        if not operation.has_target:
            yield Route(f"/{many}/{operation.word}", form.ask)
            yield Route(f"/{many}/{operation.word}", form.act, methods=["POST"])
            continue
        if operation.creates:
            yield Route(f"/{many}/new", form.ask)
            yield Route(f"/{many}/new", form.act, methods=["POST"])
        yield Route(f"/{many}/{form.part}/{operation.word}", form.ask)
        yield Route(f"/{many}/{form.part}/{operation.word}", form.act, methods=["POST"])


class OperationForm:
    def __init__(
        self,
        noun: Noun,
        operation: Operation,
        start: Start | None = None,
        suggest: Suggest | None = None,
    ) -> None:
        self._noun, self._operation = noun, operation
        self._start, self._suggest = start, suggest
        self._section = (noun.home or noun.many).lstrip("/")
        self._action = f"{noun.many}.{operation.verb}"
        self._inputs = [one for one in operation.inputs if one.name != PREVIEW]
        self._key = noun.key

    @property
    def part(self) -> str:
        """The part of the address that names the target."""
        return f"{{{self._key}{':int' if self._operation.target.kind == 'whole' else ''}}}"

    @property
    def operation(self) -> Operation:
        return self._operation

    def read(self, form: Form, request: Request) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the arguments, and what is wrong beside their fields."""
        problems: dict[str, str] = {}
        given = self._read(form, request, problems)
        is_preview = form.text(PREVIEW) is not None
        if not (form.text("reason") or self._operation.is_reason_optional or is_preview):
            problems["reason"] = REASON
        return given, problems

    def inputs(self, texts: Mapping[str, str], wrong: Mapping[str, str]) -> list[Input]:
        return [
            *(input_of(one, texts.get(one.name, ""), wrong.get(one.name)) for one in self._inputs),
            Input(
                "reason",
                "Reason",
                texts.get("reason", ""),
                "kept in the audit",
                is_required=not self._operation.is_reason_optional,
                error=wrong.get("reason"),
            ),
        ]

    def _is_new(self, request: Request) -> bool:
        return self._key not in request.path_params

    async def ask(self, request: Request) -> Response:
        scope = PageScope(request)
        record = await self._record(scope)
        texts = {one.name: text_of(one, _value(one, record)) for one in self._inputs}
        texts |= await self._first(scope, record)
        if not self._operation.has_target:
            texts |= {name: text for name, text in request.query_params.items() if name in texts}
        page = self._page(scope, record, await self._before(scope, record), texts)
        return await scope.show(await self._suggesting(scope, page), section=self._section)

    async def _suggesting(self, scope: PageScope, page: OperationPage) -> OperationPage:
        if self._suggest is None:
            return page
        found = await self._suggest(scope)
        inputs = [replace(one, options=found.get(one.name, ())) for one in page.inputs]
        return replace(page, inputs=inputs)

    async def _first(self, scope: PageScope, record: Any) -> Mapping[str, str]:
        return await self._start(scope, record) if self._start is not None else {}

    async def _leave_out(
        self, scope: PageScope, form: Form, given: dict[str, Any], problems: dict[str, str]
    ) -> None:
        """Do not pass what the form began with."""
        if self._start is None:
            return
        for name, text in (await self._first(scope, await self._record(scope))).items():
            if form.get(name, "").replace("\r\n", "\n").strip() == text.strip():
                given.pop(name, None)
                problems.pop(name, None)

    async def act(self, request: Request) -> Response:
        scope = PageScope(request)
        scope.check(self._action)
        form = await read_form(request)
        is_new = self._is_new(request)
        where = self._where(scope, form)
        given, problems = self.read(form, request)
        await self._leave_out(scope, form, given, problems)
        is_preview = form.text(PREVIEW) is not None
        if is_new and where and not problems and await self._exists(scope, where):
            problems["name"] = f"{self._noun.one.capitalize()} {where['name']} already exists."
        counted = ""
        if not problems:
            try:
                if not is_preview:
                    return await self._perform(scope, where, given, form)
                counted = await self._preview(scope, where, given)
            except (InputError, TimingError, WrongState, UnknownJob) as error:
                problems[error.field or ""] = refusal(error)
        record = None if is_new else await self._record(scope)
        texts = {name: form.text(name) or "" for name in form}
        before = counted or await self._before(scope, record)
        page = await self._suggesting(scope, self._page(scope, record, before, texts, problems))
        return await scope.show(page, status=422 if problems else 200, section=self._section)

    async def _preview(self, scope: PageScope, where: dict[str, Any], given: dict[str, Any]) -> str:
        """What the operation would do, by a dry run."""
        act = getattr(getattr(scope, self._noun.many), self._operation.verb)
        found = await act(**where, **given, **{PREVIEW: True})
        said = self._operation.says(found, True, show_time(scope))
        return f"{said[:1].upper()}{said[1:]}."

    async def _perform(
        self, scope: PageScope, where: dict[str, Any], given: dict[str, Any], form: Form
    ) -> Response:
        commands = getattr(scope, self._noun.many)
        if self._operation.completes is not None:
            given = self._operation.completes(given)
        reason = form.text("reason")
        result = await getattr(commands, self._operation.verb)(**where, **given, reason=reason)
        result = self._operation.answer(result)
        is_changed = not self._operation.is_switch or self._operation.is_changed(result)
        if self._operation.shows_target:
            result = self._noun.record_of(await commands.get(**where))
        said = self._operation.says(result, is_changed, show_time(scope))
        is_gone = self._operation.is_removal and result != "reset"
        if not self._operation.has_target:
            return scope.go(self._after(result), said[:1].upper() + said[1:])
        target = where[self._operation.target.name]
        if renamed := given.get(self._operation.renames_to):
            where = where | {self._operation.target.name: renamed}
        path = f"/{self._section}" if is_gone else path_of(self._noun.many, *where.values())
        return scope.go(path, f"{self._noun.one.capitalize()} {target} {said}")

    def _after(self, result: Any) -> str:
        """The page of what an operation without a target has made, or else its list."""
        if isinstance(result, self._noun.record):
            return path_of(self._noun.many, self._noun.key_of(result))
        if self._operation.leads_to:
            return path_of(self._noun.many, getattr(result, self._operation.leads_to))
        return f"/{self._section}"

    def _where(self, scope: PageScope, form: Form | None = None) -> dict[str, Any]:
        """The target, and its tenant."""
        if not self._operation.has_target:
            return {}
        is_new = self._is_new(scope.request)
        source: Any = form if is_new and form is not None else scope.request.query_params
        found = {self._operation.target.name: self._target(scope, form)}
        if self._operation.has_tenant:
            found["tenant"] = source.get("tenant", "").strip()
        return found

    def _target(self, scope: PageScope, form: Form | None) -> Any:
        if self._is_new(scope.request):
            return (form.text("name") if form is not None else None) or ""
        if self._operation.target.kind == "whole":
            return scope.request.path_params[self._key]
        return scope.name(self._key)

    async def _record(self, scope: PageScope) -> Any:
        """The target; None for what is to be created."""
        if self._is_new(scope.request):
            return None
        details = await getattr(scope, self._noun.many).get(**self._where(scope))
        return self._noun.record_of(details)

    async def _before(self, scope: PageScope, record: Any) -> str:
        """What the operation would mean for this target."""
        operation = self._operation
        if operation.asks is None or record is None:
            return ""
        if operation.asks_about != "get":
            command = getattr(getattr(scope, self._noun.many), operation.asks_about)
            return operation.asks(await command(**self._where(scope)))
        return operation.asks(record)

    async def _exists(self, scope: PageScope, where: dict[str, Any]) -> bool:
        found = await getattr(scope, self._noun.many).list(tenant=where.get("tenant", ""))
        return any(one.name == where["name"] for one in found)

    def _read(self, form: Form, request: Request, problems: dict[str, str]) -> dict[str, Any]:
        """What was typed; what cannot be read is noted beside its field."""
        zone = zone_of(request)
        given: dict[str, Any] = {}
        for one in self._inputs:
            text = form.text(one.name)
            try:
                if one.kind == "flag" and not one.is_optional:
                    given[one.name] = text is not None
                elif text is not None:
                    given[one.name] = one.parse(text, lambda at: at.replace(tzinfo=zone))
                elif one.is_optional:
                    given[one.name] = None
                elif one.is_required:
                    problems[one.name] = f"Enter {one.field.example}, for example."
            except InputError as error:
                problems[one.name] = refusal(error)
        return given

    def _page(
        self,
        scope: PageScope,
        record: Any,
        before: str,
        texts: Mapping[str, str],
        problems: Mapping[str, str] | None = None,
    ) -> OperationPage:
        wrong, operation = dict(problems or {}), self._operation
        path, query = scope.request.url.path.removeprefix(scope.root), scope.request.url.query
        name = "" if record is None else str(self._noun.key_of(record))
        inputs = [
            *(_target_inputs(operation, texts, wrong) if record is None else ()),
            *self.inputs(texts, wrong),
        ]
        verb = (operation.verb if name else "create").capitalize()
        title = operation.title or f"{verb} {self._noun.one}"
        is_new = operation.has_target and not name
        return OperationPage(
            f"New {self._noun.one}" if is_new else f"{title} {name}".strip(),
            f"{verb} {self._noun.one} {name}".strip() if operation.has_target else title,
            name,
            action=f"{path}?{query}" if query else path,
            back=path_of(self._noun.many, *self._where(scope).values())
            if name
            else f"/{self._section}",
            about=operation.summary,
            before=before,
            inputs=inputs,
            command=command_of(self._noun, operation, record),
            error=wrong.get(""),
            is_dangerous=operation.is_dangerous,
            has_preview=operation.takes(PREVIEW),
        )


def _target_inputs(
    operation: Operation, texts: Mapping[str, str], wrong: Mapping[str, str]
) -> Iterator[Input]:
    if not operation.has_target:
        return
    name = texts.get("name", "")
    yield Input("name", "Name", name, is_required=True, error=wrong.get("name"))
    if operation.has_tenant:
        yield Input("tenant", "Tenant", texts.get("tenant", ""), "empty: all tenants together")


def command_of(noun: Noun, operation: Operation, record: Any) -> str:
    """The same on the command line, as it can be run; with the first setting as it is now. Empty
    for a new record, which has no name yet, and if more than a name is needed."""
    if record is None or operation.positional:
        return ""
    tenant = getattr(record, "tenant", "") if operation.has_tenant else ""
    key = str(noun.key_of(record))
    given: dict[str, str] = {}
    for argument in operation.inputs:
        if argument.is_required and not argument.is_positional:
            given[argument.name] = text_of(argument, argument.field.example)
        value = getattr(record, argument.name, None) if argument.default is UNCHANGED else None
        if value is not None:
            given[argument.name] = text_of(argument, value)
            break
    target = f"{tenant}/{key}" if tenant else key
    return line_of(noun.many, operation.verb, target, **given)


def input_of(one: Argument, text: str, error: str | None) -> Input:
    small = f"empty: {one.field.none_means}" if one.is_optional and one.field.none_means else ""
    if one.field.default and not isinstance(one.field.default, bool):
        small = f"empty: {one.shown(one.field.default)}"
    hint = one.field.help if one.kind != "choice" else ""
    if one.kind == "moment":
        hint = "30min, 2h, 3d, or 2026-11-02 08:00 in your time zone"
    choices = one.field.choices or dict.fromkeys(one.words, "") if one.kind == "choice" else None
    if choices and one.is_optional and not one.field.default:
        choices, small = {"": one.field.none_means, **choices}, ""
    is_flag = one.kind == "flag" and not one.is_optional
    is_long = one.field.is_long or one.kind == "object"
    return Input(
        one.name, one.label, text, small, hint, choices, one.is_required, is_flag, is_long, error
    )


def _value(one: Argument, record: Any) -> Any:
    """What the field holds now; the example of its first choice for something new."""
    if record is not None and one.default is ...:
        return getattr(record, one.name)
    if record is None and isinstance(one.default, str):
        return one.default
    return one.words[0] if one.kind == "choice" and not one.is_optional else None


def text_of(one: Argument, value: Any) -> str:
    if value is None:
        return ""
    if one.check is not None and one.check.write is not None:
        return one.check.write(value)
    if one.kind == "duration":
        return write_duration(value)
    if one.kind in ("words", "numbers"):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping) and all(isinstance(it, int) for it in value.values()):
        return ", ".join(f"{name}={it}" for name, it in value.items())
    if isinstance(value, Mapping):
        return json.dumps(value, indent=2, ensure_ascii=False, default=str) if value else ""
    if isinstance(value, datetime):
        return value.isoformat()
    return plain(value) if isinstance(value, float) else str(value)

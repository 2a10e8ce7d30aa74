"""Commands of declared nouns: the actions of a noun, and the flags of its list.

`rota queues pause NAME… --until --reason --json` is read from the operation `queues.pause`. With
`--json` every action prints a list of `{target, is_changed, result | error}`. It goes on after a
target that fails, and exits with 1 then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import actor, administer
from rota.cli.tenants.whose import named, refuse_slash, whole_name
from rota.cli.terminal import names, paging, times, values
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.flags import Absolute, Json, NameOption
from rota.cli.terminal.output import print_json, say
from rota.cli.terminal.progress import progress
from rota.cli.terminal.words import CliWords
from rota.errors import InputError, RotaError
from rota.model.durations import write_duration
from rota.model.field_values import ALL
from rota.model.fields import Argument, arguments_of
from rota.model.tenant import split_name
from rota.operations.registry import Noun, Operation, commands_of, operations_of, plan_of

if TYPE_CHECKING:
    from rota.app import App

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


# Prints a result.
Show = Callable[[Any], None]


def add_actions(
    commands: typer.Typer, many: str, complete: Any, show: Mapping[str, Show] | None = None
) -> None:
    """Add a command for each operation of a noun. `complete` lists the names of its targets; `show`
    prints the results of some verbs above their sentence."""
    found = commands_of(many)
    for operation in operations_of(found, "cli"):
        if operation.has_target:
            made = _action(found.noun, operation, complete, (show or {}).get(operation.verb))
        else:
            made = _whole_action(found.noun, operation)
        commands.command(operation.word)(made)


def _action(noun: Noun, operation: Operation, complete: Any, show: Show | None) -> Any:
    def run(ctx: typer.Context, targets: Any, json: bool, **texts: Any) -> int:
        targets = [targets] if operation.positional else targets
        tenant = texts.pop("tenant", None) if operation.has_tenant else None
        given = dict(read_flags(operation.arguments, texts))
        if _has_settings(operation) and not any(one.name in given for one in operation.inputs):
            raise Failure(values.NOTHING, code=2)
        with administer(ctx) as app:
            done = [_one(ctx, app, noun, operation, name, tenant, given, show) for name in targets]
        if json:
            print_json([one for one, _ in done])
        return max(code for _, code in done)

    kind = int if operation.target.kind == "whole" else str
    about = operation.target.field.help
    if operation.has_tenant:
        about = f"{about.rstrip('.')}, or TENANT/NAME."
    target = typer.Argument(metavar=noun.key.upper(), help=about, autocompletion=complete)
    parameters = [
        inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context),
        inspect.Parameter(
            "targets",
            _KEYWORD,
            annotation=Annotated[kind if operation.positional else list[kind], target],  # type: ignore[valid-type]
        ),
        *flags_of(operation.arguments[1:]),
        inspect.Parameter("json", _KEYWORD, annotation=Json, default=False),
    ]
    if operation.verb == "create" and not operation.positional:
        hidden = inspect.Parameter("name_option", _KEYWORD, annotation=NameOption, default=None)
        parameters.append(hidden)
    return shaped(run, operation.name_of(noun), operation.summary, parameters)


def _whole_action(noun: Noun, operation: Operation) -> Any:
    """An operation without a target: it is done once, and prints its result with `--json`."""

    def run(ctx: typer.Context, json: bool, **texts: Any) -> None:
        given = dict(read_flags(operation.arguments, texts))
        with administer(ctx) as app:
            commands = getattr(app, noun.many).by(actor()).sync
            result = operation.answer(getattr(commands, operation.verb)(**given))
        if json:
            print_json(result)
        else:
            say(operation.says(result, True, times.absolute))

    parameters = [
        inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context),
        *flags_of(operation.arguments),
        inspect.Parameter("json", _KEYWORD, annotation=Json, default=False),
    ]
    return shaped(run, operation.name_of(noun), operation.summary, parameters)


def _has_settings(operation: Operation) -> bool:
    return any(one.default is ... for one in operation.arguments)


def _one(
    ctx: typer.Context,
    app: App,
    noun: Noun,
    operation: Operation,
    target: str | int,
    tenant: str | None,
    given: dict[str, Any],
    show: Show | None,
) -> tuple[dict[str, Any], int]:
    """The JSON of one target, and its exit code. A database that is away ends the command."""
    from rota.cli.main import fail
    from rota.errors import DatabaseError, SchemaError

    try:
        where = _where(app, noun, operation, target, tenant)
        is_changed, result = perform(app, noun, operation, where, given)
    except (DatabaseError, SchemaError):
        raise
    except RotaError as error:
        parameters = ctx.command.params
        text = error.sentence(CliWords(parameters))
        failed = {"target": target, "is_changed": False, "error": text, "code": error.code}
        code = fail(error, parameters)
        # An error of the noun is about a value that was typed.
        return failed, 2 if type(error) is noun.error else code
    if not ctx.params["json"]:
        if show is not None:
            show(result)
        tenant, name = where.get("tenant"), where[operation.target.name]
        shown = noun.named(whole_name(tenant, name) if tenant else name)
        say(f"{shown} {operation.says(result, is_changed, times.absolute)}")
    return {"target": target, "is_changed": is_changed, "result": result}, 0


def _where(
    app: App, noun: Noun, operation: Operation, target: Any, tenant: str | None
) -> dict[str, Any]:
    """The target and its tenant: by `--tenant`, or as lists print it, `TENANT/NAME`."""
    key = operation.target.name
    if not operation.has_tenant:
        return {key: target}
    if tenant is not None:
        if (
            operation.creates
            and split_name(target)[0] is not None
            and not exists(app, noun, target)
        ):
            refuse_slash(target, "NAME", "pass it without --tenant, or a name without a slash")
        return {key: target, "tenant": tenant}
    owner, rest = named(app, target, lambda app, name, of: exists(app, noun, name, of))
    return {key: rest, "tenant": owner or ""}


def exists(app: App, noun: Noun, name: str, tenant: str = "") -> bool:
    commands = getattr(app, noun.many).sync
    try:
        commands.get(name, tenant=tenant)
    except RotaError as error:
        if type(error).__name__.endswith("NotFound"):
            return False
        raise
    return True


def perform(
    app: App, noun: Noun, operation: Operation, where: dict[str, Any], given: dict[str, Any]
) -> tuple[bool, Any]:
    """Whether it changed anything, and its result, or its target as it is now."""
    commands = getattr(app, noun.many).by(actor()).sync
    with _progress(operation, str(where[operation.target.name])) as more:
        done = getattr(commands, operation.verb)(**where, **given, **more)
    result = operation.answer(done)
    if operation.shows_target:
        is_changed = not operation.is_switch or operation.is_changed(result)
        return is_changed, noun.record_of(commands.get(**where))
    return not getattr(result, "is_dry_run", False), result


@contextmanager
def _progress(operation: Operation, target: str) -> Iterator[dict[str, Any]]:
    """What an operation needs to report its progress, if it does."""
    if "on_progress" not in inspect.signature(operation.plan).parameters:
        yield {}
        return
    with progress(f"{operation.verb} {target}") as bar:
        yield {"on_progress": bar.advance}


def flags_of(arguments: Any) -> Iterator[inspect.Parameter]:
    """A flag for each argument; all are texts that `read_flags` reads. What has to be given, and
    has a place in Python too, is an argument."""
    for one in arguments:
        metavar = one.field.metavar or _METAVARS[one.kind]
        about = _help(one)
        if one.kind == "flag":
            off = "" if one.default is False else f"/--no-{one.flag[2:]}"
            annotation: Any = Annotated[bool | None, typer.Option(one.flag + off, help=about)]
        elif one.is_positional or one.field.is_argument:
            complete = _completion(one)
            place = typer.Argument(metavar=_place(one), help=about, autocompletion=complete)
            annotation = Annotated[str if one.is_required else str | None, place]
        elif one.kind in _REPEATABLE:
            repeated = f"{about[:-1]}; repeatable."
            complete = _completion(one)
            option = typer.Option(one.flag, metavar=metavar, help=repeated, autocompletion=complete)
            annotation = Annotated[list[str] | None, option]
        else:
            complete = _completion(one)
            names = [one.flag, *([f"-{one.field.letter}"] if one.field.letter else [])]
            option = typer.Option(*names, metavar=metavar, help=about, autocompletion=complete)
            annotation = Annotated[str | None, option]
        default = inspect.Parameter.empty if one.is_required else None
        yield inspect.Parameter(one.name, _KEYWORD, annotation=annotation, default=default)


def _place(one: Argument) -> str:
    """An argument as help and errors name it, or else its flag."""
    is_argument = one.is_positional or one.field.is_argument
    return one.field.metavar or one.name.upper() if is_argument else one.flag


# How the shell completes values, by the name of the argument.
_COMPLETE = {
    "job": names.job_names,
    "queue": names.queue_names,
    "tenant": names.tenant_names,
    "schedule": names.schedule_names,
    "subject": names.subject_names,
    "calendar": names.calendar_names,
    "template": names.template_names,
}
_METAVARS = {
    "flag": "",
    "whole": "N",
    "number": "N",
    "duration": "90s",
    "moment": "2h|TIME",
    "instant": "TIME",
    "choice": "WORD",
    "words": "A,B",
    "text": "TEXT",
    "object": "JSON",
    "objects": "JSON",
    "numbers": "N",
    "several": "TEXT",
    "pairs": "KEY:VALUE",
    "selection": f"NAME|{ALL}",
}


def _completion(one: Argument) -> Any:
    """How the shell completes a value: by what is stored, or by the choices."""
    return _COMPLETE.get(one.name) or (names.one_of(one.words) if one.words else None)


# How several texts of one flag are joined.
_REPEATABLE = {
    "pairs": "\n",
    "selection": ",",
    "numbers": ",",
    "several": "\n",
    "words": ",",
    "objects": ",",
}


def _help(one: Argument) -> str:
    choices = f" Choices: {', '.join(one.words)}." if one.words else ""
    means = one.field.none_means
    none = f" {one.field.none}: {means}." if one.is_optional and means else ""
    reads = " @FILE reads it from a file, - from standard input." if one.kind == "object" else ""
    text = one.field.help + choices + reads + (none if one.default is ... else "")
    return text + _default(one)


def _default(one: Argument) -> str:
    if one.field.default not in (None, "", False, [], {}):
        return f" Default: {_typed(one)}."
    is_value = isinstance(one.default, str | int | float) and not isinstance(one.default, bool)
    return f" Default: {one.default}." if is_value and one.default != "" else ""


def _typed(one: Argument) -> str:
    """The value that no value stands for, as it is typed."""
    value = one.field.default
    return write_duration(value) if one.kind == "duration" else str(value)


def read_flags(
    arguments: Any, texts: dict[str, Any], *, is_filter: bool = False
) -> Iterator[tuple[str, Any]]:
    """The values of the flags that were passed."""
    known = {one.name: one for one in arguments}
    local = _local(texts.get("timezone"))
    for name, text in texts.items():
        if text is None or text == []:
            continue
        if isinstance(text, list):
            text = _REPEATABLE[known[name].kind].join(text)
        if known[name].kind == "object":
            text = values.content(text, _place(known[name]))
        try:
            is_read = isinstance(text, bool)
            parsed = text if is_read else known[name].parse(text, local, is_filter=is_filter)
            yield name, parsed
        except InputError as error:
            hint = f"; {error.hint}" if error.hint else ""
            values.refuse(_place(known[name]), f"{error.problem}{hint}")


def _local(timezone: str | None) -> Callable[[datetime], datetime]:
    """What gives a time without an offset its zone: that of the command, or else the reader's."""
    if timezone is None:
        return times.local
    from rota.timing.once import instant_of
    from rota.timing.zones import zone

    tz = zone(timezone)
    return lambda at: instant_of(at, tz)


def list_command(
    many: str,
    show: Callable[[typer.Context, App, list[Any], dict[str, Any]], None],
    *,
    limit: int | None = None,
    read: str = "list",
) -> Any:
    """The command `list` of a noun, or another list that it can `read`, with a flag for each filter
    and its order. `show` prints what was found, unless `--json` is given. With a limit, it shows
    one page."""
    plan = plan_of(commands_of(many), read)
    arguments = arguments_of(plan)

    def run(ctx: typer.Context, json: bool, absolute: bool, **texts: Any) -> None:
        place = {name: texts.pop(name) for name in ("limit", "after") if name in texts}
        given = dict(read_flags(arguments, texts, is_filter=True))
        with administer(ctx) as app:
            found, more = _found(getattr(app, many).sync, many, read, given | place)
            if json:
                print_json(found)
            else:
                show(ctx, app, found, given)
        paging.more(len(found), *more)

    parameters = [
        inspect.Parameter("ctx", _KEYWORD, annotation=typer.Context),
        *flags_of(arguments),
        *_page_flags(limit),
        inspect.Parameter("absolute", _KEYWORD, annotation=Absolute, default=False),
        inspect.Parameter("json", _KEYWORD, annotation=Json, default=False),
    ]
    summary = " ".join((inspect.getdoc(plan) or "").partition("\n\n")[0].split())
    return shaped(run, f"{read}_{many}", summary.replace("`order`", "--order"), parameters)


def _page_flags(limit: int | None) -> Iterator[inspect.Parameter]:
    if limit is not None:
        kinds: dict[str, Any] = {"limit": paging.LongLimit, "after": paging.After}
        for name, default in (("limit", limit), ("after", None)):
            yield inspect.Parameter(name, _KEYWORD, annotation=kinds[name], default=default)


def _found(
    commands: Any, many: str, read: str, given: dict[str, Any]
) -> tuple[list[Any], tuple[Any, str]]:
    """A list, or a page of it; and what `paging.more` says about the next page."""
    if "limit" not in given:
        return getattr(commands, read)(**given), (None, "")
    usual = {one.name: one.default for one in arguments_of(plan_of(commands_of(many), read))}
    kind, after = many if read == "list" else f"{many} {read}", given.pop("after")
    if "order" in usual:
        kind = f"{kind} {given.get('order', usual['order'])}"
    is_by_id = arguments_of(plan_of(commands_of(many), "get"))[0].kind == "whole"
    cursor = paging.read(kind, after, is_by_id=is_by_id)
    page = getattr(commands, "page" if read == "list" else read)(**given, cursor=cursor)
    return [*page.items], (page.cursor, kind)


def shaped(
    function: Callable[..., Any], name: str, about: str, parameters: list[inspect.Parameter]
) -> Any:
    """The function with the signature from which typer reads its flags."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    function.__name__, function.__doc__ = name, about
    return function

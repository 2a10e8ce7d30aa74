"""Routes of declared nouns: a list, a single item, and one route for each operation.

| operation | route |
|---|---|
| `list` | `GET /queues` |
| `get` | `GET /queues/{name}` |
| `create` | `POST /jobs`, with the name in the body |
| `set`, `update` | `PATCH /queues/{name}`, or `PUT` if it creates what does not exist |
| `remove`, `delete` | `DELETE /limits/{name}` |
| others | `POST /queues/{name}/pause` |
| without a target | `POST /events/replay`, or `POST /events` if it makes something new |

The body holds the arguments; `tenant` is a query parameter, `version` the header `If-Match`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any, Literal, is_typeddict

from fastapi import APIRouter, Path, Query, Response
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, WithJsonSchema

from rota.api.changes import set_changed, telling
from rota.api.etags import Version, set_etag, tagged
from rota.api.pages import page_of
from rota.api.paths import address, is_creation, path_of
from rota.api.routing import router
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import (
    Cursor,
    Instant,
    Limit,
    Pairs,
    Seconds,
    read_cursor,
    read_metadata,
)
from rota.api.schemas.views import Body, ChangeBody, examples, name_of, page, view_of
from rota.api.state import RequestScope, Scoped
from rota.errors import RotaError
from rota.model.fields import UNCHANGED, Argument, Kind, arguments_of, settings_of
from rota.operations.commands import Commands
from rota.operations.registry import Noun, Operation, commands_of, operations_of, plan_of

_PARAMETER = inspect.Parameter.KEYWORD_ONLY


def routes_of(many: str, *place: type, by_name: tuple[type, ...] = ()) -> APIRouter:
    """The routes of a noun. `place` has the types of its list's cursor; `by_name` those in the
    order of names, if they are others."""
    commands = commands_of(many)
    routes, noun = router(many), commands.noun
    get, page_plan = plan_of(commands, "get"), plan_of(commands, "list")
    add_page(routes, f"/{many}", f"list_{many}", many, page_plan, noun.record, place, by_name)
    model = view_of(_details(get))
    add_route(routes, path_of(noun, get), _get(noun, get), model, problems(404) | _tag(noun))
    add_operations(routes, many)
    return routes


def add_operations(routes: APIRouter, many: str) -> None:
    """Add the routes of the operations of a noun."""
    commands = commands_of(many)
    for operation in operations_of(commands, "api"):
        _add_operation(routes, commands, operation)


def _details(get: Any) -> type:
    found: type = inspect.get_annotations(get, eval_str=True)["return"].__args__[-1]
    return found


def add_route(
    routes: APIRouter,
    path: str,
    endpoint: Any,
    model: Any,
    responses: Any,
    method: str = "GET",
    status: int = 200,
) -> None:
    routes.add_api_route(
        path,
        endpoint,
        methods=[method],
        response_model=model,
        operation_id=endpoint.__name__,
        responses=responses,
        status_code=status,
    )


def _tag(noun: Noun) -> dict[int | str, dict[str, object]]:
    return tagged() if _is_versioned(noun.many) else {}


@cache
def _is_versioned(many: str) -> bool:
    """Whether an operation of the noun can be limited to one version of its target."""
    return any(one.takes("version") for one in operations_of(commands_of(many)))


def add_page(
    routes: APIRouter,
    path: str,
    operation_id: str,
    many: str,
    plan: Any,
    record: type,
    place: tuple[type, ...],
    by_name: tuple[type, ...] = (),
) -> None:
    """Add `GET path`: one page of a list. `place` has the types of its cursor; `by_name` those in
    the order of names, if they are others."""
    label = path.removeprefix("/").replace("/", " ")
    verb = "page" if plan.__name__ == "list" else plan.__name__

    async def endpoint(scope: RequestScope, limit: int, cursor: str | None, **given: Any) -> Any:
        kind = f"{label} {given['order']}" if "order" in given else label
        types = by_name if by_name and given["order"] == "name" else place
        at = read_cursor(kind, cursor, *types)
        read = getattr(getattr(scope, many), verb)
        return page_of(kind, await read(cursor=at, limit=limit, **given))

    made = shaped(endpoint, operation_id, summary_of(plan), page_parameters(plan))
    add_route(routes, path, made, page(view_of(record)), {})


def page_parameters(plan: Any, limit: int = 50) -> list[inspect.Parameter]:
    """The filters of a list, and its place."""
    extra = [("limit", Limit, limit), ("cursor", Cursor, None)]
    return [query_of(one) for one in arguments_of(plan)] + [
        inspect.Parameter(name, _PARAMETER, annotation=kind, default=default)
        for name, kind, default in extra
    ]


def _get(noun: Noun, plan: Any) -> Any:
    async def endpoint(scope: RequestScope, response: Response, **given: Any) -> Any:
        found = await getattr(scope, noun.many).get(**given)
        _set_etag(noun, response, noun.record_of(found))
        return found

    target, *rest = arguments_of(plan)
    parameters = [target_of(target), *map(query_of, rest)]
    return shaped(endpoint, f"get_{noun.code}", summary_of(plan), [*parameters, _RESPONSE])


def _set_etag(noun: Noun, response: Response, record: Any) -> None:
    if _is_versioned(noun.many):
        set_etag(response, record.version)


def _add_operation(routes: APIRouter, commands: type[Commands], operation: Operation) -> None:
    noun = commands.noun
    method, path = address(noun, operation)
    statuses = [] if operation.creates and not _names_others(operation) else [404]
    statuses += [409] if operation.may_conflict else []
    statuses += [412] if operation.takes("version") else []
    responses = problems(*statuses, *(() if method == "DELETE" else WITH_BODY))
    if operation.is_switch:
        responses |= telling()
    if operation.takes("version") and method != "DELETE":
        responses |= _tag(noun)
    if operation.status == 201 and _is_versioned(noun.many):
        responses |= tagged(201)
    if _answers_record(noun, operation):
        is_record = operation.has_result
        model = view_of(noun.record if is_record else _details(plan_of(commands, "get")))
    else:
        model = _result(noun, operation)
    endpoint = _act(noun, operation, has_body=method != "DELETE")
    add_route(routes, path, endpoint, model, responses, method, operation.status)


def _names_others(operation: Operation) -> bool:
    """Whether it may name something else that does not exist."""
    return any(one.name in ("job", "template") for one in operation.inputs)


def _answers_record(noun: Noun, operation: Operation) -> bool:
    return operation.shows_target or operation.result is noun.record


def _result(noun: Noun, operation: Operation) -> type[BaseModel]:
    """The answer of an operation whose result is another record, or a plain value."""
    if operation.has_record:
        return view_of(operation.result)
    name = f"{operation.verb.capitalize()}{name_of(noun.record)}Result"
    about = (inspect.getdoc(operation.plan) or "").rpartition("Returns ")[2].rstrip(".")
    target, result = operation.target, operation.result_name
    types, shown = {target.name: target.type}, {target.name: target.field.example}
    inside: dict[str, Any] = {target.name: Field(description=target.field.help)}
    if operation.has_result:
        types[result], shown[result] = operation.result, operation.example
        inside[result] = Field(description=f"{about[:1].upper()}{about[1:]}.")
    inside |= {"__annotations__": types, "model_config": examples(shown)}
    return type(name, (BaseModel,), inside | {"__doc__": "What was done.", "__module__": __name__})


def _act(noun: Noun, operation: Operation, *, has_body: bool) -> Any:
    target = operation.target.name

    async def endpoint(
        scope: RequestScope, response: Response, body: BaseModel | None = None, **given: Any
    ) -> Any:
        commands = getattr(scope, noun.many)
        sent = body.model_dump(exclude_unset=True) if body else {}
        named = {target: given.get(target) or sent[target]} if operation.has_target else {}
        found = await getattr(commands, operation.verb)(**given, **sent)
        found = operation.answer(found)
        if operation.is_switch:
            set_changed(response, operation.is_changed(found))
        if operation.shows_target:
            where = named | {name: it for name, it in given.items() if name == "tenant"}
            details = await commands.get(**where)
            found = noun.record_of(details) if operation.is_switch else details
        if operation.has_record and operation.result is not noun.record:
            return found
        if not _answers_record(noun, operation):
            after = sent.get(operation.renames_to, named[target])
            return {target: after} | (
                {operation.result_name: found} if operation.has_result else {}
            )
        _set_etag(noun, response, found)
        return found

    is_in_path = operation.has_target and not is_creation(operation)
    parameters = [target_of(operation.target), _RESPONSE] if is_in_path else [_RESPONSE]
    inputs = [] if is_in_path else [operation.target]
    for one in operation.arguments[1:]:
        if one.name == "version":
            parameters.append(_parameter(one.name, Version))
        elif (one.name == "tenant" and operation.has_tenant and is_in_path) or not has_body:
            parameters.append(query_of(one))
        else:
            inputs.append(one)
    if inputs:
        parameters.append(_body(noun, operation, inputs))
    return shaped(endpoint, operation.name_of(noun), operation.summary, parameters)


def _body(noun: Noun, operation: Operation, inputs: list[Argument]) -> inspect.Parameter:
    verb = "".join(word.capitalize() for word in operation.verb.split("_"))
    model = body_of(f"{verb}{name_of(noun.record)}", inputs, "Arguments.")
    if any(one.default is UNCHANGED or one.is_required for one in inputs):
        return _parameter("body", model)
    return inspect.Parameter("body", _PARAMETER, annotation=model | None, default=None)


def body_of(name: str, inputs: Iterable[Argument], about: str) -> Any:
    """The model of a body with these fields."""
    is_change = any(one.default is UNCHANGED for one in inputs)
    shown = {one.name: _example(one) for one in inputs if one.field.example is not None}
    defaults = {one.name: _default(one) for one in inputs if not one.is_required}
    inside: dict[str, Any] = dict(defaults)
    inside["__annotations__"] = {
        one.name: Annotated[_type(one), Field(description=_description(one))] for one in inputs
    }
    inside |= {"__doc__": about, "__module__": __name__, "model_config": examples(shown)}
    return type(name, (ChangeBody if is_change else Body,), inside)


def _example(one: Argument) -> Any:
    is_one_of_several = one.kind == "several" and isinstance(one.field.example, str)
    return [one.field.example] if is_one_of_several else one.field.example


def _default(one: Argument) -> Any:
    if one.default is not UNCHANGED:
        return one.default
    return False if one.kind == "flag" and not one.is_optional else None


@cache
def object_of(kind: Any) -> Any:
    """The body of an object whose fields are declared; others are any object."""
    if not is_typeddict(kind):
        return kind
    return body_of(kind.__name__, settings_of(kind), inspect.getdoc(kind) or "")


def _description(one: Argument) -> str:
    means = f" null: {one.field.none_means}." if one.is_optional and one.field.none_means else ""
    if one.field.default not in (None, "", [], {}):
        means = f" Default: {json.dumps(one.field.default)}."
    choices = "".join(f" `{word}`: {it}." for word, it in (one.field.choices or {}).items() if it)
    every = " true: all of them." if one.kind == "selection" else ""
    return one.field.help + choices + means + every


def _repeated(one: Argument) -> str:
    return f"{one.field.help.rstrip('.')}; repeatable."


def _type(one: Argument) -> Any:
    make = _TYPES.get(one.kind)
    kind = one.type if make is None else make(one)
    return kind | None if one.is_optional else kind


def _bounded(kind: Any) -> Callable[[Argument], Any]:
    return lambda one: Annotated[kind, Field(ge=_whole(one.field.least), le=_whole(one.field.most))]


def _duration(one: Argument) -> Any:
    kind = _bounded(Seconds)(one)
    return kind | Literal[one.field.endless] if one.field.endless else kind


def _whole(bound: float | None) -> float | None:
    return int(bound) if bound is not None and float(bound).is_integer() else bound


def _moment(one: Argument) -> Any:
    shown = [str(one.field.example or "2h"), "2026-03-08T09:00:00Z"]
    schema = {"type": "string", "examples": shown}
    return Annotated[Any, BeforeValidator(_reader(one)), WithJsonSchema(schema)]


def _text(one: Argument) -> Any:
    shortest = one.field.shortest or None
    return Annotated[str, Field(min_length=shortest, max_length=one.field.longest)]


def _words(one: Argument) -> Any:
    """An argument that may be left out has at least one word; a setting may be empty."""
    word: Any = Literal[one.words] if one.words else _text(one)
    least = int(one.is_optional and one.default is not UNCHANGED)
    # Those that narrow a list have to fit into an address.
    most = 50 if one.kind == "several" else 1000
    return Annotated[list[word], Field(min_length=least, max_length=most)]


def _numbers(one: Argument) -> Any:
    number: Any = _bounded(int)(one)
    return Annotated[list[number], Field(min_length=1, max_length=1000)]


def _selection(one: Argument) -> Any:
    known: Any = Literal[tuple(one.field.choices)] if one.field.choices else _text(one)
    return bool | Annotated[list[known], Field(max_length=1000)]


def _reader(one: Argument) -> Any:
    """Errors of the field as pydantic expects them, which names the place itself."""

    def read(value: Any) -> Any:
        try:
            return one.read(value)
        except RotaError as error:
            raise ValueError(error.problem) from None

    return read


# The type of a field in a body, by kind, if it is not that of the argument.
_TYPES: dict[Kind, Callable[[Argument], Any]] = {
    "whole": _bounded(int),
    "number": _bounded(float),
    "duration": _duration,
    "numbers": _numbers,
    "moment": _moment,
    "instant": lambda one: Instant,
    "words": _words,
    "several": _words,
    "text": _text,
    "object": lambda one: object_of(one.type),
    "selection": _selection,
    "objects": lambda one: Annotated[list[object_of(one.type)], Field(max_length=100)],  # type: ignore[misc]
}


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, _PARAMETER, annotation=annotation)


_RESPONSE = _parameter("response", Response)


def target_of(one: Argument) -> inspect.Parameter:
    field = one.field
    if one.kind == "whole":
        number = Path(ge=_whole(field.least), le=_whole(field.most), description=field.help)
        return _parameter(one.name, Annotated[int, number])
    name = Path(min_length=1, max_length=field.longest, description=field.help)
    return _parameter(one.name, Annotated[str, name])


def query_of(one: Argument) -> inspect.Parameter:
    if one.kind == "pairs":
        pairs = Annotated[Pairs, Query(alias=one.singular, description=_repeated(one))]
        read: Any = Annotated[pairs, AfterValidator(read_metadata)]
        return inspect.Parameter(one.name, _PARAMETER, annotation=read, default=None)
    default = inspect.Parameter.empty if one.is_required else _default(one)
    if one.kind == "several":
        about = Query(alias=one.singular, description=_repeated(one))
    else:
        about = Query(description=_description(one))
    annotated: Any = Annotated[_type(one), about]
    return inspect.Parameter(one.name, _PARAMETER, annotation=annotated, default=default)


def summary_of(plan: Any) -> str:
    return (inspect.getdoc(plan) or "").partition("\n\n")[0]


def shaped(endpoint: Any, name: str, text: str, parameters: list[inspect.Parameter]) -> Any:
    """The endpoint with the signature from which FastAPI reads its parameters."""
    scope = inspect.Parameter("scope", _PARAMETER, annotation=Scoped)
    endpoint.__signature__ = inspect.Signature([scope, *parameters])
    endpoint.__name__, endpoint.__doc__ = name, text
    return endpoint

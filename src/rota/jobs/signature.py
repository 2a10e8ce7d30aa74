"""Reads a handler's signature: the parameters of the payload, and the one of the context."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from rota.errors import JobError
from rota.jobs.context import Context

_UNUSABLE: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "takes any number of arguments",
    inspect.Parameter.VAR_KEYWORD: "takes any arguments",
    inspect.Parameter.POSITIONAL_ONLY: "is positional-only",
}
_NO_DEFAULT = inspect.Parameter.empty


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter that is part of the payload."""

    name: str
    annotation: Any
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is _NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Signature:
    """The payload's fields, and the parameter that gets the context.

    `positional` are the names that an enqueue may fill by position, without the context, because an
    enqueue has none.
    """

    fields: tuple[Field, ...]
    positional: tuple[str, ...]
    context_parameter: str | None


def read_signature(function: Callable[..., Any], place: str) -> Signature:
    """Read the signature once, at decoration. `place` names the function in errors."""
    hints = _resolve_hints(function, place)
    fields: list[Field] = []
    positional: list[str] = []
    contexts: list[str] = []
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        _refuse_unusable(parameter, place)
        annotation = hints.get(parameter.name, Any)
        if is_context(annotation):
            if number > 0 and not contexts:
                _refuse_late_context(parameter, place)
            contexts.append(parameter.name)
            continue
        fields.append(Field(parameter.name, annotation, parameter.default))
        if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD:
            positional.append(parameter.name)
    if len(contexts) > 1:
        raise JobError(f"{place} has two parameters for the context: {', '.join(contexts)}")
    return Signature(tuple(fields), tuple(positional), contexts[0] if contexts else None)


def is_context(annotation: Any) -> bool:
    """Return whether a parameter takes the context: `Context`, `Context | None` or `Annotated`."""
    origin = get_origin(annotation)
    if origin is Annotated:
        return is_context(get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return any(is_context(part) for part in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, Context)


def _refuse_unusable(parameter: inspect.Parameter, place: str) -> None:
    problem = _UNUSABLE.get(parameter.kind)
    if problem:
        raise JobError(
            f"{place}: parameter {parameter} {problem}; a payload is a fixed set of named values",
            hint="name each value as a parameter, or take one parameter of type dict or list",
        )


def _refuse_late_context(parameter: inspect.Parameter, place: str) -> None:
    """Refuse a required context that is not the first parameter: type checkers would treat it as an
    argument of the enqueue."""
    if parameter.default is _NO_DEFAULT:
        raise JobError(
            f"{place}: the context must be the first parameter, or have a default",
            hint=f"write ({parameter.name}: rota.Context, …), or {parameter.name}: "
            "rota.Context | None = None",
        )


def _resolve_hints(function: Callable[..., Any], place: str) -> dict[str, Any]:
    """Return annotations as types, also if `from __future__ import annotations` made them text.

    The return type is omitted: it is not needed here, and may name a type that only type checkers
    import.
    """
    inner = inspect.unwrap(function)
    known: Mapping[str, Any] = getattr(inner, "__globals__", {})
    holder = types.SimpleNamespace(
        __annotations__={
            name: hint for name, hint in inner.__annotations__.items() if name != "return"
        }
    )
    try:
        return get_type_hints(holder, dict(known), {}, include_extras=True)
    except NameError:
        pass
    try:
        return get_type_hints(holder, dict(known), _more_names(known), include_extras=True)
    except NameError as error:
        raise JobError(
            f"{place} has an annotation that cannot be resolved: {error}",
            hint="import the type where the job is declared, not only under TYPE_CHECKING",
        ) from error


def _more_names(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context's names, which may be imported for type checkers only, and the local names
    of the function that declares the job: the nearest frame outside Rota."""
    ours = {"Context": Context, "rota": types.SimpleNamespace(Context=Context)}
    names = {name: value for name, value in ours.items() if name not in known}
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("rota."):
        frame = frame.f_back
    return names | (frame.f_locals if frame is not None else {})

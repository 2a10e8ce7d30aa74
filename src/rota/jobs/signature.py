"""What a handler's signature says: which parameters are payload, and which is the context."""

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
    """One parameter that is part of the payload."""

    name: str
    annotation: Any
    default: Any

    @property
    def is_required(self) -> bool:
        return self.default is _NO_DEFAULT


@dataclass(frozen=True, slots=True)
class Signature:
    """The payload's fields, and the parameter that gets the context.

    `positional` are the names that enqueue may fill by position: the context is left out, because
    whoever enqueues has none.
    """

    fields: tuple[Field, ...]
    positional: tuple[str, ...]
    context_parameter: str | None


def read_signature(function: Callable[..., Any], place: str) -> Signature:
    """Read it once, at decoration. `place` names the function in errors."""
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
    """Whether a parameter asks for the context: `Context`, `Context | None` or annotated so."""
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
    """Type checkers take a context that callers must give, but does not come first, for an argument
    of the enqueue."""
    if parameter.default is _NO_DEFAULT:
        raise JobError(
            f"{place}: the context must be the first parameter, or have a default",
            hint=f"write ({parameter.name}: rota.Context, …), or {parameter.name}: "
            "rota.Context | None = None",
        )


def _resolve_hints(function: Callable[..., Any], place: str) -> dict[str, Any]:
    """Annotations as types, also where `from __future__ import annotations` made them text.

    The return type is left out: nothing here needs it, and it may name what only a type checker
    imports.
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
    """The context's names, which only a type checker may have imported, and the local names of
    the function that declares the job: the first one outwards that is not Rota's own."""
    ours = {"Context": Context, "rota": types.SimpleNamespace(Context=Context)}
    names = {name: value for name, value in ours.items() if name not in known}
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("rota."):
        frame = frame.f_back
    return names | (frame.f_locals if frame is not None else {})

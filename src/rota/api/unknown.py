"""Suggests names for unknown fields and parameters of a request."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, get_args

from pydantic import BaseModel

from rota.operations.registry import NOUNS, commands_of, operations_of

_AFFIXES = ("{}_seconds", "{}_at", "is_{}", "has_{}", "{}s")


def guess(name: str, known: Collection[str]) -> str | None:
    """Return a likely known name, if there is one."""
    plain = name.lower().replace("-", "_").lstrip("_")
    return next((candidate for candidate in _candidates(plain, known) if candidate in known), None)


def _candidates(name: str, known: Collection[str]) -> Iterator[str]:
    """The field of this other name, the name with and without units and prefixes, one that ends
    with it, a similar one."""
    yield name
    yield from (field for other, field in _other_names() if other == name)
    yield from (affix.format(name) for affix in _AFFIXES)
    yield from (name.removesuffix(end) for end in ("_seconds", "_at", "s"))
    yield from (name.removeprefix(start) for start in ("is_", "has_"))
    yield from (one for one in sorted(known) if one.endswith(f"_{name}") and len(name) > 2)
    yield from (one for one in sorted(known) if name.endswith(f"_{one}"))
    yield from get_close_matches(name, sorted(known), n=1, cutoff=0.65)


@cache
def _other_names() -> Sequence[tuple[str, str]]:
    """The names by which Python callers or flags call a field."""
    nouns = [commands_of(many) for many in NOUNS]
    found = [pair for one in nouns for pair in one.noun.names.items()]
    declared = (it for one in nouns for each in operations_of(one) for it in each.arguments)
    return [*found, *((it.field.short, it.name) for it in declared if it.field.short)]


def unknown(kind: str, name: str, known: Collection[str]) -> str:
    """Return a sentence: `unknown field "every"; did you mean interval_seconds?` The name may be
    the path of a field."""
    meant = guess(name.rpartition(".")[2], known)
    there = f"choose from {', '.join(sorted(known))}" if known else "there are none"
    return f'unknown {kind} "{name}"; ' + (f"did you mean {meant}?" if meant else there)


def fields_at(annotation: Any, path: Sequence[str | int]) -> set[str]:
    """Return the fields of the object at this place of a body. A part of the path that is no field
    names one of several types of a value."""
    models = list(_models(annotation))
    if not path:
        return {name for model in models for name in _fields(model)}
    inner = [_fields(model)[path[0]] for model in models if path[0] in _fields(model)]
    if not inner:
        named = [one for one in models if one.__name__ == path[0]] or models
        return {name for model in named for name in fields_at(model, path[1:])}
    return {name for one in inner for name in fields_at(one, path[1:])}


def _fields(model: type[BaseModel]) -> dict[Any, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yield the models, also those inside lists, maps and unions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)

"""Converts a stored result to the type that its handler declares."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, get_args

from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError

from rota.errors import ResultError
from rota.jobs.payload import is_plain

_CONFIG = ConfigDict(val_json_bytes="base64")
_MODELS_HAVE_THEIR_OWN = "type-adapter-config-unused"


def result_decoder(function: Callable[..., Any], job: str) -> Callable[[Any], Any]:
    """Return a decoder that is compiled on first use: few programs wait for results."""

    def decode(result: Any) -> Any:
        adapter = _adapter(function)
        if adapter is None:
            return result
        try:
            return adapter.validate_json(json.dumps(result))
        except ValidationError as error:
            problems = "; ".join(_problem(detail) for detail in error.errors(include_url=False))
            raise ResultError(
                f'the result of job "{job}" is not of the declared type: {problems}',
                hint="read it undecoded: (await run.info()).result",
            ) from None

    return decode


@cache
def _adapter(function: Callable[..., Any]) -> TypeAdapter[Any] | None:
    """Return an adapter for the declared type; None if the JSON value is already the result, or no
    type is declared."""
    try:
        annotation = typing.get_type_hints(function, include_extras=True).get("return", Any)
    except Exception:  # a name that only type checkers can resolve
        return None
    if is_plain(annotation) and not _has_float(annotation):
        return None
    try:
        return TypeAdapter(annotation, config=_CONFIG)
    except PydanticUserError as error:
        if error.code != _MODELS_HAVE_THEIR_OWN:
            return None
    return TypeAdapter(annotation)


def _has_float(annotation: Any) -> bool:
    # jsonb may return 1e20 as a whole number.
    return annotation is float or any(_has_float(part) for part in get_args(annotation))


def _problem(detail: Any) -> str:
    place = ".".join(str(part) for part in detail["loc"])
    return f"{place}: {detail['msg']}" if place else str(detail["msg"])

"""A form from the schema of a job's payload, and the payload from what it sends. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from rota.errors import RotaError
from rota.web.payload_text import arguments_in
from rota.web.words import refusal

PREFIX = "p."
_WHOLE = re.compile(r"[+-]?[0-9]+")
_WORDS = {
    "integer": "whole number",
    "number": "number",
    "boolean": "yes or no",
    "text": "text",
    "date": "date",
    "time": "date and time",
    "json": "JSON",
    "exact": "number",
}


@dataclass(frozen=True, slots=True)
class PayloadField:
    """One argument of the job. `kind` decides on its input; `options` are choices, as JSON and as
    words."""

    name: str
    kind: str
    words: str
    is_required: bool
    is_nullable: bool
    options: list[tuple[str, str]]
    default: str
    description: str
    value: str = ""
    error: str | None = None


def fields_of(schema: Mapping[str, Any]) -> list[PayloadField]:
    """Return the fields in the order of the handler; empty if the schema has none."""
    properties, required = arguments_in(schema)
    return [
        _field(str(name), one, schema, name in required)
        for name, one in properties.items()
        if isinstance(one, dict)
    ]


def _field(
    name: str, given: dict[str, Any], schema: Mapping[str, Any], is_required: bool
) -> PayloadField:
    shape, is_nullable = _shape(given, schema)
    kind, options = _kind(shape)
    default = as_text(given["default"], kind) if given.get("default") is not None else ""
    return PayloadField(
        name=name,
        kind=kind,
        words="choice" if options and kind != "boolean" else _WORDS.get(kind, kind),
        is_required=is_required,
        is_nullable=is_nullable,
        options=options,
        default=default,
        description=str(given.get("description") or shape.get("description") or ""),
    )


def _shape(given: dict[str, Any], schema: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Resolve references and "or none"."""
    shape, is_nullable = given, False
    for _ in range(10):
        if isinstance(name := shape.get("$ref"), str):
            found = (schema.get("$defs") or {}).get(name.rpartition("/")[2])
            shape = found if isinstance(found, dict) else {}
        elif isinstance(parts := shape.get("anyOf") or shape.get("allOf"), list):
            kept = [part for part in parts if part.get("type") != "null"]
            is_nullable = is_nullable or len(kept) < len(parts)
            if {part.get("type") for part in kept} == {"number", "string"}:
                return {"type": "exact"}, is_nullable
            shape = kept[0] if len(kept) == 1 else {}
        else:
            break
    return shape, is_nullable


def _kind(shape: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    choices = shape.get("enum") or ([shape["const"]] if "const" in shape else [])
    if choices:
        return "choice", [(json.dumps(choice), str(choice)) for choice in choices]
    kind = shape.get("type")
    if kind == "boolean":
        return "boolean", [("true", "yes"), ("false", "no")]
    if kind == "string":
        return {"date": "date", "date-time": "time"}.get(shape.get("format", ""), "text"), []
    return (str(kind), []) if kind in ("integer", "number", "exact") else ("json", [])


def as_text(value: Any, kind: str) -> str:
    """Return a value as an input of its kind shows it."""
    if kind in ("text", "date", "time", "exact") and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, dict) else None)


def read_fields(
    fields: list[PayloadField], given: Mapping[str, str], zone: tzinfo
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the payload, and the problems by field. Empty fields get the handler's default."""
    payload: dict[str, Any] = {}
    wrong: dict[str, str] = {}
    for field in fields:
        text = given.get(PREFIX + field.name, "")
        if not text.strip():
            if field.is_required and field.is_nullable:
                payload[field.name] = None
            elif field.is_required:
                wrong[field.name] = "This field is required."
            continue
        try:
            payload[field.name] = _read(field.kind, text, zone)
        except ValueError as error:
            wrong[field.name] = refusal(error)
    return payload, wrong


def _read(kind: str, text: str, zone: tzinfo) -> Any:
    if kind in ("text", "date", "exact"):
        return text
    if kind == "integer":
        if not _WHOLE.fullmatch(text.strip()) or len(text) > 1000:
            raise ValueError("A whole number, such as 20.")
        return int(text)
    if kind == "time":
        try:
            at = datetime.fromisoformat(text.strip())
        except ValueError:
            raise ValueError("A date and time, such as 2026-01-31T14:30.") from None
        return (at if at.tzinfo is not None else at.replace(tzinfo=zone)).isoformat()
    try:
        value = json.loads(text)
    except ValueError as error:
        problem = "A number, such as 2.5." if kind == "number" else f"This is not JSON: {error}."
        raise ValueError(problem) from None
    if kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("A number, such as 2.5.")
    return value


def blamed(error: RotaError, names: set[str]) -> tuple[dict[str, str], list[str]]:
    """What is wrong by the argument that it is about; and the whole error, if it is about more."""
    found: dict[str, str] = error.values.get("arguments", {})
    wrong = {name: _sentence(text) for name, text in found.items() if name in names}
    return wrong, [] if found and len(wrong) == len(found) else [refusal(error)]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}." if text != "is missing" else "This field is required."

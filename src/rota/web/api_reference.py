"""The description of the API as a page shows it: read from its OpenAPI document, once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_REF = "#/components/schemas/"
_TITLES = {
    "bulk": "Bulk actions",
    "stats": "Statistics",
    "timings": "Timing",
    "views": "Saved views",
    "why": "Why",
    "stream": "Live streams",
    "health": "Health",
    "metrics": "Metrics",
}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a type: a word, or the name of a schema, which has an anchor."""

    text: str
    is_schema: bool = False


@dataclass(frozen=True, slots=True)
class Value:
    """A parameter, or a field of an object."""

    name: str
    place: str  # path, query, header, or nothing for a field
    kind: list[Part]
    bounds: str
    is_required: bool
    default: str | None
    about: str


@dataclass(frozen=True, slots=True)
class Response:
    status: str
    about: str
    kind: list[Part]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One endpoint. `errors` are the error statuses that it may answer with."""

    anchor: str
    method: str
    path: str
    about: str
    values: list[Value]
    body: list[Part]
    is_body_needed: bool
    example: str | None
    answers: list[Response]
    errors: list[Response]
    is_open: bool
    is_stream: bool
    sample: str | None

    def curl(self, base: str) -> str:
        """Return a command line to copy. The token stays in the environment."""
        words = ["curl", "-N"] if self.is_stream else ["curl"]
        if self.method != "GET":
            words += ["-X", self.method]
        words.append(_quoted(f"{base}{self.sample_path}"))
        if not self.is_open:
            words += ["-H", '"Authorization: Bearer $ROTA_SERVER_TOKEN"']
        if self.example is not None:
            words += ["-H", "'Content-Type: application/json'", "-d", _quoted(self.example)]
        return " ".join(words)

    @property
    def sample_path(self) -> str:
        """The path with a sample value for each parameter."""
        return self.sample or self.path


@dataclass(frozen=True, slots=True)
class Section:
    anchor: str
    title: str
    operations: list[Endpoint]


@dataclass(frozen=True, slots=True)
class Schema:
    name: str
    about: str
    fields: list[Value]
    example: str | None


@dataclass(frozen=True, slots=True)
class Reference:
    about: str
    sections: list[Section]
    schemas: list[Schema]
    problems: list[Response]


def read(document: Mapping[str, Any]) -> Reference:
    schemas = document["components"]["schemas"]
    found: dict[str, list[Endpoint]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            found.setdefault(tag, []).append(_operation(path, method, operation, schemas))
    sections = [
        Section(tag, _TITLES.get(tag, tag.capitalize()), list(operations))
        for tag, operations in found.items()
    ]
    problems = {
        error.status: error for one in sections for op in one.operations for error in op.errors
    }
    return Reference(
        document["info"]["description"],
        sections,
        [_schema(name, one) for name, one in sorted(schemas.items())],
        [problems[status] for status in sorted(problems)],
    )


def _operation(
    path: str, method: str, one: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Endpoint:
    body = _content(one.get("requestBody", {}))
    answers = list(_answers(one["responses"]))
    values = [_parameter(value) for value in one.get("parameters", [])]
    return Endpoint(
        anchor=one["operationId"],
        method=method.upper(),
        path=path,
        about=one.get("description", one.get("summary", "")),
        values=values,
        body=_kind(body) if body else [],
        is_body_needed=bool(one.get("requestBody", {}).get("required")),
        example=_example(body, schemas),
        answers=[answer for answer in answers if answer.status < "4"],
        errors=[answer for answer in answers if answer.status >= "4"],
        is_open=one.get("security") == [],
        is_stream="text/event-stream" in str(one["responses"].get("200", {}).get("content", {})),
        sample=_sample(path, one.get("parameters", [])),
    )


def _content(holder: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a body, whatever its media type."""
    for kind in holder.get("content", {}).values():
        schema: Mapping[str, Any] = kind.get("schema", {})
        return schema
    return {}


def _answers(responses: Mapping[str, Any]) -> Iterator[Response]:
    for status, response in responses.items():
        about = response.get("description", "").replace("Successful Response", "")
        yield Response(str(status), about, _kind(_content(response)))


def _parameter(value: Mapping[str, Any]) -> Value:
    about = value.get("description", "")
    return _value(value["name"], value["schema"], value["in"], value.get("required", False), about)


def _value(
    name: str, schema: Mapping[str, Any], place: str, is_required: bool, about: str | None = None
) -> Value:
    default = json.dumps(schema["default"]) if schema.get("default") is not None else None
    return Value(
        name=name,
        place=place,
        kind=_kind(schema),
        bounds=_bounds(schema),
        is_required=is_required,
        default=default,
        about=schema.get("description", "") if about is None else about,
    )


def _schema(name: str, schema: Mapping[str, Any]) -> Schema:
    needed = schema.get("required", [])
    fields = [
        _value(field, schema_, "", field in needed)
        for field, schema_ in schema.get("properties", {}).items()
    ]
    examples = schema.get("examples") or [None]
    return Schema(name, schema.get("description", ""), fields, _pretty(examples[0]))


def _kind(schema: Mapping[str, Any]) -> list[Part]:
    if "$ref" in schema:
        return [Part(schema["$ref"].removeprefix(_REF), is_schema=True)]
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return _joined([_kind(one) for one in schema[key]])
    if "enum" in schema:
        return [Part(" | ".join(json.dumps(one) for one in schema["enum"]))]
    if schema.get("type") == "array":
        return [Part("array of "), *_kind(schema.get("items", {}))]
    more = schema.get("additionalProperties")
    if isinstance(more, dict) and more:
        return [Part("object of "), *_kind(more)]
    words = schema.get("format") or schema.get("type") or "any"
    return [Part(" | ".join(words) if isinstance(words, list) else str(words))]


def _joined(kinds: list[list[Part]]) -> list[Part]:
    found: list[Part] = []
    for kind in kinds:
        if found:
            found.append(Part(" | "))
        found += kind
    return found


def _bounds(schema: Mapping[str, Any]) -> str:
    """Return the bounds of the value itself, or of its alternative that is not null."""
    kinds = [schema, *schema.get("anyOf", [])]
    low = next((kind["minimum"] for kind in kinds if "minimum" in kind), None)
    high = next((kind["maximum"] for kind in kinds if "maximum" in kind), None)
    most = next((kind["maxLength"] for kind in kinds if "maxLength" in kind), None)
    parts = []
    if low is not None or high is not None:
        parts.append(
            f"{'' if low is None else f'{low:.15g}'} … {'' if high is None else _whole(high)}"
        )
    if most is not None:
        parts.append(f"up to {most} characters")
    return ", ".join(parts)


def _whole(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.15g}"


def _example(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str | None:
    """Return an example body, from the schema that the body names."""
    for part in _kind(schema) if schema else []:
        if part.is_schema:
            examples = schemas.get(part.text, {}).get("examples")
            if examples:
                return json.dumps(examples[0], ensure_ascii=False)
    return None


def _sample(path: str, parameters: list[Any]) -> str:
    for one in parameters:
        if one["in"] == "path":
            kind = one["schema"].get("type")
            path = path.replace("{" + one["name"] + "}", "42" if kind == "integer" else "NAME")
    return path


def _pretty(value: Any) -> str | None:
    return None if value is None else json.dumps(value, indent=2, ensure_ascii=False)


def _quoted(text: str) -> str:
    """Quote any text for a shell."""
    return "'" + text.replace("'", "'\\''") + "'"

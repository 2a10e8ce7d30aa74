"""The properties of a job's payload in words. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_DEEPEST, _MOST_ROWS = 4, 200


@dataclass(frozen=True, slots=True)
class Property:
    """One value of a payload, by its path: `address.street`."""

    name: str
    type: str
    is_required: bool
    default: str | None
    about: str


def arguments_in(schema: Any) -> tuple[Mapping[str, Any], list[str]]:
    """Return the properties of a schema, and the names of those that are required. SQL may store
    any JSON."""
    given = schema if isinstance(schema, Mapping) else {}
    properties, required = given.get("properties"), given.get("required")
    return (
        properties if isinstance(properties, Mapping) else {},
        [str(name) for name in required] if isinstance(required, list) else [],
    )


def properties_of(schema: Any) -> list[Property]:
    """Return the properties, nested ones after their parents, up to a readable number."""
    if not isinstance(schema, Mapping):
        return []
    found: list[Property] = []
    for item in _walk(schema, schema, "", 0):
        found.append(item)
        if len(found) == _MOST_ROWS:
            break
    return found


def _walk(
    node: Mapping[str, Any], root: Mapping[str, Any], path: str, depth: int
) -> Iterator[Property]:
    if depth >= _DEEPEST:
        return
    properties, needed = arguments_in(node)
    for name, raw in properties.items():
        one = _resolved(raw, root)
        default = json.dumps(one["default"], ensure_ascii=False) if "default" in one else None
        about = one.get("description", "")
        yield Property(path + name, type_of(one, root), name in needed, default, str(about))
        yield from _walk(one, root, f"{path}{name}.", depth + 1)
        if isinstance(one.get("items"), Mapping):
            yield from _walk(_resolved(one["items"], root), root, f"{path}{name}[].", depth + 1)


def _resolved(node: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow one reference inside the document; leave others as they are."""
    if not isinstance(node, Mapping):
        return {}
    target: Any = root
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return node
    for part in reference[2:].split("/"):
        target = target.get(part) if isinstance(target, Mapping) else None
    return (
        {**target, **{k: v for k, v in node.items() if k != "$ref"}}
        if isinstance(target, Mapping)
        else node
    )


def type_of(node: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0) -> str:
    """Return `integer from 1 to 9`, `list of text`, `one of "a", "b"`, `text or none`."""
    node = _resolved(node, root)
    if depth > _DEEPEST:
        return "…"
    if isinstance(values := node.get("enum"), list):
        return f"one of {', '.join(json.dumps(value, ensure_ascii=False) for value in values[:20])}"
    if "const" in node:
        return f"always {json.dumps(node['const'], ensure_ascii=False)}"
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := node.get(key), list):
            kinds = [type_of(choice, root, depth + 1) for choice in choices[:10]]
            return " or ".join(dict.fromkeys(kinds))
    kind = node.get("type", "anything")
    if isinstance(kind, list):
        return " or ".join(_WORDS.get(str(name), str(name)) for name in kind)
    if kind == "array":
        items = node.get("items")
        return (
            f"list of {type_of(items, root, depth + 1)}" if isinstance(items, Mapping) else "list"
        )
    form = node.get("format")
    return _WORDS.get(str(kind), str(kind)) + (f", {form}" if form else "") + _bounds(node)


_WORDS = {"string": "text", "null": "none", "boolean": "true or false"}
_LIMITS = (
    ("minimum", "from"),
    ("exclusiveMinimum", "above"),
    ("maximum", "to"),
    ("exclusiveMaximum", "below"),
    ("minLength", "minimum length"),
    ("maxLength", "maximum length"),
    ("pattern", "matching"),
)


def _bounds(node: Mapping[str, Any]) -> str:
    return "".join(f" {word} {node[key]}" for key, word in _LIMITS if key in node)

"""How the API names operations and values."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, urlencode

from rota.api.paths import READS, address
from rota.hints import OperationCall, Words
from rota.operations.command_line import find_operation
from rota.operations.registry import NOUNS, commands_of


class ApiWords(Words):
    none = "null"

    def field(self, name: str, short: str | None = None) -> str:
        return name

    def call(self, call: OperationCall) -> str:
        method, path, arguments = *_place(call), dict(call.arguments)
        if call.target is not None:
            path = path.replace(_target(call), quote(str(call.target), safe=""))
        query = arguments if method in ("GET", "DELETE") else _take_tenant(arguments)
        if query:
            path += f"?{urlencode({name: _plain(it) for name, it in query.items()})}"
        body = arguments if method not in ("GET", "DELETE") else {}
        return f"{method} /api/v1{path}" + (f" {json.dumps(body)}" if body else "")


def _place(call: OperationCall) -> tuple[str, str]:
    if (call.noun, call.verb) in READS:
        return "GET", READS[call.noun, call.verb]
    operation = find_operation(call.noun, call.verb)
    if operation is not None:
        return address(commands_of(call.noun).noun, operation)
    if call.verb == "list":
        return "GET", f"/{call.noun}"
    return "GET", f"/{call.noun}/{_target(call)}"


def _target(call: OperationCall) -> str:
    return f"{{{commands_of(call.noun).noun.key}}}" if call.noun in NOUNS else "{name}"


def _take_tenant(arguments: dict[str, Any]) -> dict[str, Any]:
    """Whose the target is stands in the address of an operation."""
    return {"tenant": arguments.pop("tenant")} if "tenant" in arguments else {}


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


API = ApiWords()

"""docs/reference/api.md names every endpoint with its parameters, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import rota
from rota.api import create_api

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


def described() -> dict[str, list[str]]:
    app = rota.App(embedded=False, server={"token": "a token for tests"})
    return {
        f"{method.upper()} {path}": _parameters(operation)
        for path, operations in create_api(app).openapi()["paths"].items()
        for method, operation in operations.items()
    }


def _parameters(operation: dict[str, Any]) -> list[str]:
    given = operation.get("parameters", [])
    names = [one["name"] for one in given if one["in"] == "query"]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        found = next(one for one in (schema, *schema.get("anyOf", [])) if "$ref" in one)
        names.append(found["$ref"].rsplit("/", 1)[1])
    if any(one["name"].lower() == "if-match" for one in given):
        names.append("If-Match")
    return names


def documented() -> dict[str, list[str]]:
    rows = re.findall(r"^\| `([A-Z]+ /\S*)` \| (.+) \| (.*) ?\|$", PAGE, re.MULTILINE)
    assert all(text for _, text, _ in rows)
    return {name: re.findall(r"`([^`]+)`", cell) for name, _, cell in rows}


def test_every_endpoint_has_an_entry_and_every_entry_an_endpoint() -> None:
    assert documented() == described()

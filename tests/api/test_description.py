"""The description, the views and the errors, held against what they describe."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from pydantic import TypeAdapter

import rota
from rota import errors
from rota.api import create_api
from rota.api.errors import STATUS, Often, as_problem
from rota.api.schemas.views import VIEWS
from tests.api.conftest import TOKEN


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    app = rota.App(embedded=False, server={"token": TOKEN})
    found: dict[str, Any] = create_api(app).openapi()
    return found


def operations(described: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{method.upper()} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]


def kinds(kind: type[errors.RotaError] = errors.RotaError) -> list[type[errors.RotaError]]:
    return [kind, *(one for child in kind.__subclasses__() for one in kinds(child))]


@pytest.mark.parametrize("name", sorted(VIEWS))
def test_every_field_of_an_answer_is_explained_and_shown(name: str) -> None:
    source, made = VIEWS[name]
    names = {one.name for one in fields(source)}
    explained = {key for key, field in made.model_fields.items() if field.description}
    assert explained == names
    (example,) = made.model_config["json_schema_extra"]["examples"]  # type: ignore[index,call-overload,misc]
    assert set(example) == names
    TypeAdapter(made).validate_python(example)


def test_every_error_has_a_status() -> None:
    ours = {one for one in kinds() if one.__module__ == "rota.errors"}
    assert ours == set(STATUS)
    assert errors.code_of(errors.RunNotFound) == "run_not_found"


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [
        ("57014", 504, "database_timeout"), ("40P01", 503, "database_busy"),
        ("55P03", 503, "database_busy"), ("08006", 503, "database_unavailable"),
        ("57P01", 503, "database_unavailable"), (None, 503, "database_unavailable"),
        ("22003", 422, "refused_by_database"), ("23514", 422, "refused_by_database"),
        ("42601", 500, "internal"),
    ],
)  # fmt: skip
def test_errors_of_the_database(state: str | None, status: int, code: str) -> None:
    found = as_problem(errors.DatabaseError("secret words", sqlstate=state))
    assert (found.status_code, found.code) == (status, code)
    assert ("secret words" in str(found.detail)) == (state == "22003")


def test_an_internal_error_tells_nothing() -> None:
    found = as_problem(errors.ConfigError("secret words"))
    assert (found.status_code, found.code) == (500, "internal")
    assert "secret" not in str(found.body())


def test_it_is_complete(described: dict[str, Any]) -> None:
    assert described["openapi"].startswith("3.1")
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert described["security"] == [{"token": []}]
    seen = set()
    for name, operation in operations(described):
        assert operation["summary"], name
        assert operation["description"], name
        assert operation["operationId"] not in seen, name
        seen.add(operation["operationId"])
        for parameter in operation.get("parameters", []):
            assert parameter["description"], (name, parameter["name"])
        is_open = operation.get("security") == []
        assert is_open == name.endswith(("/health", "/ready")), name
        if "/api/v1/" in name:
            assert {"400", "401", "403", "422", "429", "500", "503", "504"} <= set(
                operation["responses"]
            ), name


def test_bodies_and_answers_have_examples(described: dict[str, Any]) -> None:
    schemas = described["components"]["schemas"]

    def shown(content: dict[str, Any]) -> bool:
        schema = content["schema"]
        schema = next((one for one in schema.get("anyOf", []) if "$ref" in one), schema)
        schema = schema.get("items", schema) if schema.get("type") == "array" else schema
        if "example" in content or "examples" in schema:
            return True
        found = schemas[schema["$ref"].rsplit("/", 1)[1]]
        items = found.get("properties", {}).get("items", {}).get("items")
        return "examples" in found or (items is not None and shown({"schema": items}))

    for name, operation in operations(described):
        good = [status for status in operation["responses"] if status.startswith("2")]
        assert len(good) == 1, name
        assert operation["responses"][good[0]]["content"], name
        parts = [operation.get("requestBody", {}), *operation["responses"].values()]
        for part in parts:
            for content in part.get("content", {}).values():
                assert shown(content), (name, content)


def test_errors_are_described_where_they_can_come(described: dict[str, Any]) -> None:
    for name, operation in operations(described):
        answers, given = operation["responses"], operation.get("parameters", [])
        if "/api/v1/" not in name:
            continue
        if "requestBody" in operation:
            assert {"408", "413", "415"} <= set(answers), name
        assert ("412" in answers) == any(one["name"] == "if-match" for one in given), name
        for status, answer in answers.items():
            if not status.startswith("2"):
                assert list(answer["content"]) == ["application/problem+json"], (name, status)


def test_bodies_are_what_their_examples_show(described: dict[str, Any]) -> None:
    """An example that the API itself would refuse helps nobody."""
    from pydantic import BaseModel

    from rota.api.schemas.views import Body

    def every(kind: type[BaseModel]) -> list[type[BaseModel]]:
        return [one for child in kind.__subclasses__() for one in (child, *every(child))]

    for kind in every(Body):
        extra: Any = kind.model_config.get("json_schema_extra") or {}
        for example in extra.get("examples", []):
            kind.model_validate_json(json.dumps(example))


async def test_it_needs_the_token(stranger: Any) -> None:
    assert (await stranger.get("/api/openapi.json")).status_code == 401


def test_what_every_request_meets_is_said_once_in_a_while() -> None:
    clock = [0.0]
    often = Often(lambda: clock[0])

    assert [often.may_say("away"), often.may_say("away"), often.may_say("busy")] == [
        True,
        False,
        True,
    ]
    clock[0] = 31
    assert often.may_say("away")


def test_what_a_change_leaves_out_has_no_default(described: dict[str, Any]) -> None:
    """A client that filled it in would overwrite what is stored."""
    schemas = described["components"]["schemas"]
    changes = [
        operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].split("/")[-1]
        for name, operation in operations(described)
        if name.startswith("PATCH ")
    ]
    assert {"SetQueue", "UpdateJob", "UpdateSchedule", "SetTenant"} <= set(changes)
    for name in changes:
        found = schemas[name]["properties"]
        assert [key for key, field in found.items() if "default" in field] == [], name

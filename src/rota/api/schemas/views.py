"""Responses are the model's dataclasses; their schemas are derived from these, never repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from itertools import islice
from types import GenericAlias, UnionType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapSerializer,
    WrapValidator,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rota.api.errors import MOST_PROBLEMS
from rota.model.fields import field_of
from rota.model.unreadable import Unreadable, readable

_AT = "2026-03-08T09:00:00Z"
# Every view by its name, for the test that each has a description.
VIEWS: dict[str, tuple[type, type[BaseModel]]] = {}


class _AsItIs(NamedTuple):
    """A value that does not fit its own schema: a row that was written past the constraints."""

    value: Any


def _check(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    try:
        return check(value)
    except ValidationError:
        return _AsItIs(value)


def _show(value: Any, write: SerializerFunctionWrapHandler) -> Any:
    if isinstance(value, _AsItIs):
        return readable(value.value)
    return readable(value) if isinstance(value, Unreadable | float) else write(value)


# One unreadable field must not fail the whole response.
_CHECKED, _SHOWN = WrapValidator(_check), WrapSerializer(_show)


def list_of(item: type[BaseModel]) -> Any:
    """Return `list[item]` of a view, which is made at run time and so is no type to the checker."""
    return GenericAlias(list, (item,))


def view(
    source: type,
    name: str,
    about: Mapping[str, str],
    example: Mapping[str, Any],
    **types: Any,
) -> type[BaseModel]:
    """Return the schema of a dataclass: a description of each field, a complete example, and
    narrower types where the dataclass only says that a field is a text."""
    hints = get_type_hints(source)
    columns: dict[str, Any] = {
        field.name: (
            Annotated[types.get(field.name, hints[field.name]), _CHECKED, _SHOWN],
            Field(description=about.get(field.name)),
        )
        for field in fields(source)
    }
    made: type[BaseModel] = create_model(
        name,
        __config__=ConfigDict(
            from_attributes=True, json_schema_extra={"examples": [dict(example)]}
        ),
        __doc__=(source.__doc__ or "").partition("\n\n")[0],
        **columns,
    )
    VIEWS[name] = (source, made)
    return made


@cache
def view_of(record: type) -> type[BaseModel]:
    """Return the schema of a record whose fields are declared with descriptions and examples."""
    declared = {
        name: (hint, field_of(hint))
        for name, hint in get_type_hints(record, include_extras=True).items()
    }
    types = {name: _nested(get_args(hint)[0]) for name, (hint, _) in declared.items()}
    about = {name: field.help for name, (_, field) in declared.items() if field is not None}
    found = {name: kind for name, kind in types.items() if kind is not None}
    return view(record, name_of(record), about, example_of(record), **found)


def name_of(record: type) -> str:
    return record.__name__.removesuffix("Info")


@cache
def example_of(record: type) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    return {name: _example(hint) for name, hint in hints.items()}


def _example(hint: Any) -> Any:
    field, inner = field_of(hint), get_args(hint)[0]
    if isinstance(inner, type) and is_dataclass(inner):
        return example_of(inner)
    if get_origin(inner) is list and is_dataclass(get_args(inner)[0]):
        return [example_of(get_args(inner)[0])]
    shown = field and field.example
    return shown or _AT if inner is datetime else shown


def _nested(inner: Any) -> Any:
    """Return the view of a record, or of a list of records, in a field; None for plain values."""
    if isinstance(inner, type) and is_dataclass(inner):
        return view_of(inner)
    if isinstance(inner, UnionType) and is_dataclass(get_args(inner)[0]):
        return view_of(get_args(inner)[0]) | None
    if get_origin(inner) is list and is_dataclass(get_args(inner)[0]):
        return list_of(view_of(get_args(inner)[0]))
    return None


def page(item: type[BaseModel], **more: Any) -> type[BaseModel]:
    """Return the model of a page: its items, the cursor of the next page, and the fields in
    `more`."""
    made: type[BaseModel] = create_model(
        f"{item.__name__}Page",
        __config__=ConfigDict(from_attributes=True),
        __doc__="One page of a list.",
        items=(list_of(item), Field(description="Items, in the requested order.")),
        next_cursor=(
            str | None,
            Field(description="Pass it as `cursor` to get the next page; null on the last page."),
        ),
        **more,
    )
    return made


class Body(BaseModel):
    """What a request sends: no other fields, and no text where a number belongs."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _drop_excess(cls, given: Any) -> Any:
        """Keep only the first unknown fields: no more problems are listed, and an error for each of
        many would occupy the server for seconds."""
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields) + MOST_PROBLEMS:
            return given
        known = {field.alias or name for name, field in cls.model_fields.items()}
        excess = set(islice((name for name in given if name not in known), MOST_PROBLEMS, None))
        return {name: value for name, value in given.items() if name not in excess}


class ChangeBody(Body):
    """What a request changes: fields that it leaves out keep their values, so they show no
    default."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        shown = handler.resolve_ref_schema(handler(schema))
        for field in shown["properties"].values():
            field.pop("default", None)
        return shown


def examples(*given: Mapping[str, Any]) -> ConfigDict:
    """Return `model_config` of a body."""
    return ConfigDict(json_schema_extra={"examples": [dict(example) for example in given]})

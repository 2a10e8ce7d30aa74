"""The payload of a job: checked at enqueue, stored as JSON, converted back to arguments.

Everything that can be compiled is compiled once, when the job is declared.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any, Literal, NoReturn, NotRequired, Union, get_args, get_origin

import annotated_types
import msgspec
import pydantic_core
from pydantic import ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError
from pydantic.fields import FieldInfo
from pydantic_core.core_schema import CoreConfig
from typing_extensions import TypedDict

from rota.errors import JobError, PayloadError
from rota.jobs.encoding import as_plain, check_size, dump_json, encode_plain, has_nul
from rota.jobs.signature import Field, Signature, read_signature

# Bytes as base64 and no NaN, because JSON has neither.
_CONFIG = ConfigDict(
    extra="forbid", allow_inf_nan=False, ser_json_bytes="base64", val_json_bytes="base64"
)
_SERIALIZER_CONFIG = CoreConfig(ser_json_inf_nan="constants", ser_json_bytes="base64")
_SCALARS = frozenset({int, str, float, bool, type(None)})
_LISTS = frozenset({list, Sequence})
_DICTS = frozenset({dict, Mapping})
_UNTYPED = (Any, object, list, dict)
_SHOWN_CHARACTERS = 60
_NUL = "contains a NUL character, which jsonb cannot store"


class PayloadSchema:
    """The typed payload of one job, made from its handler's parameters."""

    __slots__ = (
        "_adapter",
        "_decode_plain",
        "_dump",
        "_limit",
        "_positional",
        "_validate",
        "context_parameter",
        "hash",
        "is_plain",
        "job",
        "json_schema",
        "names",
    )

    def __init__(self, job: str, signature: Signature, place: str, limit: int) -> None:
        fields = signature.fields
        self.job = job
        self.names = tuple(field.name for field in fields)
        self.context_parameter = signature.context_parameter
        for field in fields:
            _refuse_alias(field, place)
        shape = _shape(job, fields)
        self._adapter, self.json_schema = _compile(shape, fields, place)
        self.hash = stable_hash(self.json_schema)
        self.is_plain = all(is_plain(field.annotation) for field in fields)
        self._decode_plain = _plain_decoder(shape) if self.is_plain else None
        self.is_plain = self._decode_plain is not None
        self._validate = self._adapter.validator.validate_python
        self._dump = self._choose_dump(fields)
        self._positional = signature.positional
        self._limit = limit

    @classmethod
    def of(
        cls, function: Callable[..., Any], job: str, place: str, limit: int = 1_048_576
    ) -> PayloadSchema:
        """Return the schema of a function; `limit` is the maximum payload size in bytes."""
        return cls(job, read_signature(function, place), place, limit)

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the checked payload of a call with these arguments. Defaults are filled in by the
        handler's call."""
        values = self._by_name(args, kwargs) if args else kwargs
        try:
            bound: dict[str, Any] = self._validate(values)
            return bound
        except ValidationError as error:
            self._refuse(error)

    def encode(self, values: dict[str, Any]) -> bytes:
        """Encode bound values as JSON that Postgres can store."""
        try:
            raw = self._dump(values)
            check_size(raw)
        except (ValueError, TypeError, RecursionError, OverflowError):
            self._blame(values)
        if has_nul(raw):
            self._blame(values)
        if len(raw) > self._limit:
            raise PayloadError(
                f'the payload of job "{self.job}" has {len(raw)} bytes; '
                f"the limit is {self._limit} (runs.payload_bytes)",
                hint="store the data elsewhere and enqueue its address, or raise the limit",
            )
        return raw

    def decode(self, raw: bytes, is_validated: bool) -> dict[str, Any]:
        """Return the arguments for the handler. `is_validated`: an enqueue has checked this payload
        against a schema with the same hash."""
        if is_validated and self._decode_plain is not None:
            return self._decode_plain(raw)
        try:
            decoded: dict[str, Any] = self._adapter.validator.validate_json(raw)
            return decoded
        except ValidationError as error:
            self._refuse(error)

    def _by_name(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        if len(args) > len(self._positional):
            raise PayloadError(
                f'job "{self.job}" takes {len(self._positional)} positional arguments, '
                f"not {len(args)}"
            )
        values = dict(zip(self._positional, args, strict=False))
        for name in values:
            if name in kwargs:
                raise PayloadError(f'job "{self.job}" got argument {name} twice')
        values.update(kwargs)
        return values

    def _choose_dump(self, fields: Sequence[Field]) -> Callable[[dict[str, Any]], bytes]:
        # msgspec writes NaN as null; use the slower path if the types do not exclude NaN.
        if self.is_plain and not any(_has_any(field.annotation) for field in fields):
            return encode_plain
        # A separate serializer, because the adapter's also writes a NaN under Any as null.
        schema = self._adapter.core_schema
        serialize = pydantic_core.SchemaSerializer(schema, _SERIALIZER_CONFIG).to_python
        return lambda values: dump_json(
            serialize(
                values,
                mode="json",
                by_alias=True,
                round_trip=True,
                warnings="error",
                fallback=as_plain,
            )
        )

    def _refuse(self, error: ValidationError) -> NoReturn:
        # Not `from error`: its text repeats the whole payload.
        details = error.errors(include_url=False)
        problems = "; ".join(self._problem(detail) for detail in details)
        hint = next((hint for detail in details if (hint := self._hint(detail))), None)
        text = f'job "{self.job}": {problems}'
        raise self._about({_argument(it): _bare(it) for it in details}, text, hint) from None

    def _problem(self, detail: Any) -> str:
        if not detail["loc"]:
            return f"the payload is not an object of arguments: {detail['msg']}"
        name = ".".join(str(part) for part in detail["loc"])
        is_argument = len(detail["loc"]) == 1
        if is_argument and detail["type"] == "missing":
            return f"argument {name} is missing"
        if is_argument and detail["type"] == "extra_forbidden":
            return f"unknown argument {name}; the job takes {', '.join(self.names) or 'none'}"
        shown = repr(detail["input"])
        if len(shown) > _SHOWN_CHARACTERS:
            shown = shown[:_SHOWN_CHARACTERS] + "…"
        return f"argument {name}: {detail['msg']}, not {shown}"

    def _about(self, arguments: dict[str, str], text: str, hint: str | None = None) -> PayloadError:
        """A refusal with what is wrong by argument; "" is the payload."""
        values = {"job": self.job, "arguments": arguments}
        return PayloadError(text, hint=hint, field="payload", values=values)

    def _hint(self, detail: Any) -> str | None:
        if detail["type"] != "extra_forbidden" or not detail["loc"]:
            return None
        near = get_close_matches(str(detail["loc"][0]), self.names, 1)
        return f"did you mean {near[0]}?" if near else None

    def _blame(self, values: dict[str, Any]) -> NoReturn:
        """Encode each argument separately, to name the one that JSON or jsonb cannot store."""
        for name, value in values.items():
            start = f'job "{self.job}": argument {name}'
            try:
                raw = self._dump({name: value})
                check_size(raw)
            except (ValueError, TypeError, RecursionError, OverflowError) as error:
                raise self._about(
                    {name: f"cannot be stored as JSON: {error}"},
                    f"{start} cannot be stored as JSON: {error}",
                ) from error
            if has_nul(raw):
                raise self._about({name: _NUL}, f"{start} {_NUL}")
        raise PayloadError(f'job "{self.job}": the payload cannot be stored as JSON')


def _argument(detail: Any) -> str:
    return str(detail["loc"][0]) if detail["loc"] else ""


def _bare(detail: Any) -> str:
    """The problem without the name of its argument."""
    if detail["type"] == "extra_forbidden":
        return "is unknown"
    return "is missing" if detail["type"] == "missing" else str(detail["msg"])


def stable_hash(schema: Mapping[str, Any]) -> int:
    """Return the same signed 32-bit number for the same schema, in every process and release."""
    text = json.dumps(schema, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.blake2b(text.encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big", signed=True)


def is_plain(annotation: Any) -> bool:
    """Return whether JSON decodes to values of this type without further work."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is None:
        return annotation in _UNTYPED or annotation in _SCALARS
    if origin is Annotated:
        return is_plain(args[0]) and all(_is_constraint(extra) for extra in args[1:])
    if origin is Literal:
        return all(type(value) in _SCALARS for value in args)
    if origin in (Union, types.UnionType) or origin in _LISTS:
        return all(is_plain(part) for part in args)
    if origin in _DICTS:
        return args[0] is str and is_plain(args[1])
    return False


def _has_any(annotation: Any) -> bool:
    return annotation in _UNTYPED or any(
        _has_any(part) for part in get_args(annotation) if not isinstance(part, str | int)
    )


def _is_constraint(extra: Any) -> bool:
    # A validator may change the value; a bound or a description does not.
    if isinstance(extra, FieldInfo):
        return all(_is_constraint(part) for part in extra.metadata)
    return isinstance(extra, annotated_types.BaseMetadata | str)


def _shape(job: str, fields: Sequence[Field]) -> Any:
    types_by_name = {
        field.name: field.annotation if field.is_required else NotRequired[field.annotation]
        for field in fields
    }
    make: Any = TypedDict
    shape = make(job, types_by_name)
    shape.__pydantic_config__ = _CONFIG
    return shape


def _compile(
    shape: Any, fields: Sequence[Field], place: str
) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(shape)
        schema = adapter.json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise JobError(
            f"{place}: {_unusable(fields)} cannot be stored as JSON",
            hint="use JSON's own types, dates, enums, dataclasses or pydantic models",
        ) from error
    for field in fields:
        if not field.is_required:
            with suppress(ValueError):
                default = pydantic_core.to_jsonable_python(field.default, bytes_mode="base64")
                schema["properties"][field.name]["default"] = default
    return adapter, schema


def _unusable(fields: Sequence[Field]) -> str:
    for field in fields:
        try:
            TypeAdapter(field.annotation).json_schema()
        except PydanticUserError:
            return f"parameter {field.name} of type {field.annotation}"
    return "a parameter"


def _refuse_alias(field: Field, place: str) -> None:
    for extra in get_args(field.annotation) if get_origin(field.annotation) is Annotated else ():
        if isinstance(extra, FieldInfo) and (extra.alias or extra.validation_alias):
            raise JobError(f"{place}: parameter {field.name} has an alias; rename the parameter")


def _plain_decoder(shape: Any) -> Callable[[bytes], dict[str, Any]] | None:
    # Typed, because jsonb stores 1e20 as an integer and a float parameter needs a float.
    try:
        return msgspec.json.Decoder(shape).decode
    except TypeError:
        return None

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from rota.errors import JobError, PayloadError, ResultError
from rota.jobs.context import Context
from rota.jobs.encoding import encode_result
from rota.jobs.payload import PayloadSchema

if TYPE_CHECKING:
    from somewhere import Unknown  # type: ignore[import-not-found]

    import rota


class Colour(Enum):
    RED = "red"


class Address(BaseModel):
    street: str
    number: float = Field(alias="nr")


@dataclass
class Point:
    x: int
    y: int


def schema_of(function: Callable[..., Any], limit: int = 1000) -> PayloadSchema:
    return PayloadSchema.of(function, "job", f"here:{function.__name__}", limit)


def send(schema: PayloadSchema, *args: Any, **kwargs: Any) -> bytes:
    return schema.encode(schema.bind(args, kwargs))


def plain(n: int, text: str = "x", *, flag: bool = False) -> None: ...
def loose(value: Any, rest=None) -> None: ...  # type: ignore[no-untyped-def]


def rich(
    at: datetime,
    day: date,
    span: timedelta,
    amount: Decimal,
    uid: UUID,
    colour: Colour,
    address: Address,
    point: Point,
    raw: bytes,
    pair: tuple[int, str],
    some: set[int],
) -> None: ...


RICH: dict[str, Any] = {
    "at": datetime(2026, 1, 2, tzinfo=UTC),
    "day": date(2026, 1, 2),
    "span": timedelta(seconds=90),
    "amount": Decimal("1.10"),
    "uid": UUID(int=7),
    "colour": Colour.RED,
    "address": Address(street="a", nr=1),
    "point": Point(1, 2),
    "raw": b"\x00\xff",
    "pair": (1, "a"),
    "some": {1},
}


def test_values_come_back_as_they_were() -> None:
    schema = schema_of(rich)
    assert not schema.is_plain
    assert schema.decode(send(schema, **RICH), is_validated=True) == RICH


def test_defaults_are_left_to_the_call() -> None:
    schema = schema_of(plain)
    assert schema.bind((5,), {}) == {"n": 5}
    assert send(schema, n=5) == b'{"n":5}'
    assert schema.decode(b'{"n": 5}', is_validated=True) == {"n": 5}
    assert schema.json_schema["properties"]["text"]["default"] == "x"
    assert schema.json_schema["required"] == ["n"]


def test_arguments_by_position_and_by_name_are_one_payload() -> None:
    schema = schema_of(plain)
    assert send(schema, 5, "y", flag=True) == send(schema, n=5, text="y", flag=True)


@pytest.mark.parametrize(
    ("args", "kwargs", "problem"),
    [
        ((), {}, "argument n is missing"),
        (("five",), {}, "argument n: .* not 'five'"),
        ((1,), {"txet": "a"}, "unknown argument txet; the job takes n, text, flag"),
        ((1, "a", True), {}, "takes 2 positional arguments, not 3"),
        ((1,), {"n": 2}, "got argument n twice"),
        ((1,), {"text": "a\0b"}, "argument text contains a NUL"),
        ((1,), {"text": "\ud800"}, "argument text"),
        ((1,), {"text": "y" * 2000}, r"has 20\d\d bytes; the limit is 1000 \(runs.payload_bytes\)"),
    ],
)
def test_a_bad_argument_is_named(args: Any, kwargs: Any, problem: str) -> None:
    schema = schema_of(plain)
    with pytest.raises(PayloadError, match=problem) as caught:
        send(schema, *args, **kwargs)
    assert "job" in str(caught.value)


def test_what_is_not_typed_comes_back_as_json_says() -> None:
    def untyped(a: object, b: list, c: dict, d: Sequence[int], e: Mapping[str, int]) -> None: ...  # type: ignore[type-arg]

    schema = schema_of(untyped)
    values = {"a": [1, {"x": None}], "b": [1, "a"], "c": {"k": 2.5}, "d": [1], "e": {"k": 1}}
    assert schema.is_plain
    assert schema.decode(send(schema, **values), is_validated=True) == values


def test_a_near_miss_is_suggested() -> None:
    with pytest.raises(PayloadError) as caught:
        send(schema_of(plain), 1, txet="a")
    assert caught.value.hint == "did you mean text?"
    assert caught.value.field == "payload"
    assert caught.value.values == {"job": "job", "arguments": {"txet": "is unknown"}}


@pytest.mark.parametrize(
    "bad", [math.nan, math.inf, [-math.inf], {"a": {"b": math.nan}}, (math.nan,)]
)
def test_what_json_has_no_number_for_is_refused(bad: Any) -> None:
    with pytest.raises(PayloadError, match="argument value cannot be stored as JSON"):
        send(schema_of(loose), bad)


def test_nan_is_refused_in_typed_numbers_and_in_models() -> None:
    def numbers(x: float, many: list[float], address: Address | None = None) -> None: ...

    schema = schema_of(numbers)
    for values in ({"x": math.nan, "many": []}, {"x": 1.0, "many": [math.inf]}):
        with pytest.raises(PayloadError, match="finite number"):
            send(schema, **values)
    with pytest.raises(PayloadError, match="argument address"):
        send(schema, 1.0, [], Address(street="a", nr=math.nan))


@pytest.mark.parametrize("value", [object(), "\ud800", {"deep": object()}])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(PayloadError, match="argument value cannot be stored as JSON"):
        send(schema_of(loose), value)


def test_an_escaped_backslash_is_no_nul() -> None:
    assert schema_of(loose).decode(send(schema_of(loose), "\\u0000"), True) == {"value": "\\u0000"}
    with pytest.raises(PayloadError, match="NUL"):
        send(schema_of(loose), "\\\0")
    with pytest.raises(PayloadError, match="NUL"):
        send(schema_of(loose), {"\0": 1})


def test_a_float_that_the_database_stores_as_an_integer_comes_back_a_float() -> None:
    def numbers(x: float, many: dict[str, float]) -> None: ...

    schema = schema_of(numbers)
    assert schema.is_plain
    values = schema.decode(b'{"x": 100000000000000000000, "many": {"a": 1}}', is_validated=True)
    assert [type(values["x"]), type(values["many"]["a"])] == [float, float]


def test_what_was_not_validated_is_checked_before_the_call() -> None:
    schema = schema_of(plain)
    for raw, problem in {
        b'{"n": "x"}': "argument n",
        b'{"n": 1, "gone": 2}': "unknown argument gone",
        b"[1]": "not an object",
        b"{}": "argument n is missing",
    }.items():
        with pytest.raises(PayloadError, match=problem):
            schema.decode(raw, is_validated=False)


def test_a_constraint_holds_and_is_still_plain() -> None:
    def page(size: Annotated[int, Field(ge=1, le=100)], kind: Literal["a", "b"] = "a") -> None: ...

    schema = schema_of(page)
    assert schema.is_plain
    with pytest.raises(PayloadError, match="argument size"):
        send(schema, 0)
    with pytest.raises(PayloadError, match="argument kind"):
        send(schema, 1, "c")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (int, True),
        (str | None, True),
        (list[dict[str, int | None]], True),
        (dict, True),
        (Any, True),
        (Sequence[int], True),
        (Mapping[str, str], True),
        (Annotated[int, {"unhashable": []}], False),
        (tuple[int, ...], False),
        (set[int], False),
        (dict[int, str], False),
        (datetime, False),
        (Address, False),
        (Annotated[str, AfterValidator(str.lower)], False),
    ],
)
def test_plain_means_that_decoded_json_can_be_passed_on(annotation: Any, expected: bool) -> None:
    def one(value) -> None: ...  # type: ignore[no-untyped-def]

    one.__annotations__["value"] = annotation
    assert schema_of(one).is_plain is expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("ab"), inner),
    max_leaves=10,
)


# A busy machine is no reason to fail.
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(JSON)
def test_any_json_value_comes_back(value: Any) -> None:
    schema = schema_of(loose, limit=10**6)
    assert schema.decode(send(schema, value), is_validated=True) == {"value": value}
    assert schema.decode(send(schema, value), is_validated=False) == {"value": value}


def test_the_context_is_injected_and_no_part_of_the_payload() -> None:
    def direct(ctx: Context, n: int) -> None: ...
    def optional(n: int, ctx: Optional[Context] = None) -> None: ...  # noqa: UP045
    def union(n: int, ctx: Context | None = None) -> None: ...
    def checker_only(ctx: rota.Context, n: int) -> Unknown: ...
    def without(n: int) -> None: ...

    for function in (direct, optional, union, checker_only):
        schema = schema_of(function)
        assert (schema.context_parameter, schema.names) == ("ctx", ("n",))
        assert schema.bind((1,), {}) == {"n": 1}
    assert schema_of(without).context_parameter is None


def test_types_that_are_local_to_the_declaring_function_are_found() -> None:
    class Local(BaseModel):
        n: int

    def job(local: Local) -> None: ...

    schema = PayloadSchema.of(job, "job", "here:job")
    assert schema.decode(b'{"local": {"n": 1}}', is_validated=True) == {"local": Local(n=1)}


def many(*args: int) -> None: ...
def anything(**options: int) -> None: ...
def positional(n: int, /) -> None: ...
def two(a: Context, b: Context) -> None: ...
def late(n: int, ctx: Context) -> None: ...
def by_name(n: int, *, ctx: Context) -> None: ...
def handler(callback: Callable[[], None]) -> None: ...
def unresolved(n: Unknown) -> None: ...
def aliased(n: Annotated[int, Field(alias="m")]) -> None: ...


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (many, r"here:many: parameter \*args"),
        (anything, r"here:anything: parameter \*\*options"),
        (positional, "here:positional: parameter n"),
        (two, "two parameters for the context: a, b"),
        (late, "here:late: the context must be the first parameter, or have a default"),
        (by_name, "here:by_name: the context must be the first parameter"),
        (handler, "parameter callback .* cannot be stored as JSON"),
        (unresolved, "here:unresolved .*Unknown"),
        (aliased, "parameter n has an alias"),
    ],
)
def test_an_unusable_signature_is_refused(function: Callable[..., Any], problem: str) -> None:
    with pytest.raises(JobError, match=problem):
        schema_of(function)


def test_the_hash_follows_the_schema_and_nothing_else() -> None:
    def same(n: int, text: str = "x", *, flag: bool = False) -> str: ...  # type: ignore[empty-body]
    def other(n: int, text: str | None = "x", *, flag: bool = False) -> None: ...

    assert schema_of(plain).hash == schema_of(same).hash != schema_of(other).hash
    assert -(2**31) <= schema_of(plain).hash < 2**31


def test_the_hash_is_the_same_in_another_process() -> None:
    program = (
        "from tests.jobs.test_payload import plain, rich, schema_of\n"
        "print(schema_of(plain).hash, schema_of(rich).hash)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == [str(schema_of(it).hash) for it in (plain, rich)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (0, b"0"),
        (True, b"true"),
        ("NaN", b'"NaN"'),
        ({"to": "ü", "at": date(2026, 1, 2)}, '{"to":"ü","at":"2026-01-02"}'.encode()),
        (Address(street="a", nr=1), b'{"street":"a","nr":1.0}'),
        (b"\x00", b'"AA=="'),
        (MappingProxyType({"a": [MappingProxyType({"b": 1})]}), b'{"a":[{"b":1}]}'),
        (ChainMap({"a": 1}, {"b": date(2026, 1, 2)}), b'{"b":"2026-01-02","a":1}'),
    ],
)
def test_a_result_is_stored_as_json(value: Any, expected: bytes | None) -> None:
    assert encode_result(value, 1000) == expected


@pytest.mark.parametrize(
    "annotation", [Any, object, Mapping[str, int], dict[str, int], dict, Mapping]
)
def test_a_payload_value_may_be_any_mapping(annotation: Any) -> None:
    def job(value: Any) -> None: ...

    job.__annotations__["value"] = annotation
    schema = schema_of(job)
    sent = send(schema, MappingProxyType({"a": 1}))
    assert json.loads(sent) == {"value": {"a": 1}}
    assert schema.decode(sent, is_validated=True) == {"value": {"a": 1}}


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "the result cannot be stored as JSON: a value of type builtins.object has no"),
        ([math.inf], "Infinity is not valid JSON"),
        ("a\0", "the result contains a NUL"),
        ("x" * 2000, "the result has 2002 bytes; the limit is 1000"),
    ],
)
def test_a_result_that_cannot_be_stored_says_why(value: Any, problem: str) -> None:
    with pytest.raises(ResultError, match=problem):
        encode_result(value, 1000)

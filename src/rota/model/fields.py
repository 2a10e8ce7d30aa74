"""Fields of records and arguments of operations, declared once and read by every interface.

A field is a type with a `Field` beside it:

    MaxWaiting = Annotated[int | None, Field("Maximum number of waiting runs.", 1000, least=0)]

`arguments_of` lists those of a function. `Argument.read` checks a value that a program passes;
`Argument.parse` reads what a person typed, and returns what `read` takes.
"""

from __future__ import annotations

import inspect
import json
import math
from collections import abc
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from rota.errors import InputError
from rota.hints import FIELD
from rota.model.durations import Duration
from rota.model.field_values import PARSERS, READERS
from rota.model.formatting import duration
from rota.model.instants import LONGEST_SECONDS

# An instant, or a duration from now; both may be given as text.
Moment = datetime | timedelta | str
# Values of a JSON object that are compared with a text.
Plain = str | int | float | bool
Kind = Literal[
    "flag",
    "whole",
    "number",
    "duration",
    "moment",
    "instant",
    "choice",
    "words",
    "text",
    "object",
    "objects",
    "pairs",
    "selection",
    "numbers",
    "several",
]

_KINDS: dict[Any, Kind] = {
    bool: "flag",
    int: "whole",
    float: "number",
    str: "text",
    list[str]: "words",
    list[int]: "numbers",
    abc.Iterable[str]: "words",
    datetime: "instant",
    frozenset(get_args(Duration)): "duration",
    frozenset(get_args(Moment)): "moment",
    Mapping[str, Plain]: "pairs",
    frozenset({bool, list[str]}): "selection",
    frozenset({str, Sequence[str]}): "several",
}
# The default of a setting: it keeps its value.
UNCHANGED: Any = ...
BIGGEST_ID = 2**63 - 1


class Missing(Enum):
    """The default of an argument that has to be given."""

    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Field:
    """What people need to know of a field. `least` and `most` bound a number, `shortest` and
    `longest` the characters of a text; `choices` says what each word of a Literal means, or lists
    the words that a selection takes. `none` is the word that people type for no value, and
    `none_means` what that does. `default` is the value that no value stands for. `is_long`: pages
    show a large input. `short` is the name of the flag, if that is not the name of the field; a
    filter that is repeated value by value has it in addresses too. `word` is its name in the filter
    of a page, where people type it. `endless` is the word for a duration without end.
    `is_argument`: the command line takes it as an argument though it may be left out. `letter` is a
    flag of one letter. `is_bound`: a filter that another value narrows or widens, so that lists
    cannot leave out a value of it."""

    help: str
    example: Any = None
    label: str = ""
    least: float | None = None
    most: float | None = None
    shortest: int = 0
    longest: int = 200
    choices: Mapping[str, str] | None = None
    none: str = "none"
    none_means: str = ""
    metavar: str = ""
    is_long: bool = False
    short: str = ""
    endless: str = ""
    is_argument: bool = False
    letter: str = ""
    word: str = ""
    is_bound: bool = False
    default: Any = None


@dataclass(frozen=True, slots=True)
class Check:
    """A check beside a Field: `Annotated[Events, Check(check_events)]`. `read` takes the name and
    the value, and returns the value as plans take it; ValueError if it does not fit. `parse` makes
    such a value of what a person typed, and `write` the reverse, if that is not JSON."""

    read: Callable[[str, Any], Any]
    parse: Callable[[str], Any] | None = None
    write: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """A field in the place where it is set: its name, its type without None, and its default."""

    name: str
    type: Any
    field: Field
    kind: Kind
    is_optional: bool = False
    default: Any = Missing.MISSING
    is_keyword: bool = True
    check: Check | None = None

    @property
    def is_required(self) -> bool:
        return self.default is Missing.MISSING

    @property
    def is_positional(self) -> bool:
        """Whether the command line takes it as an argument, which has to be given. Times and
        objects have a flag."""
        has_flag = self.kind in ("moment", "instant", "object")
        return self.is_required and not self.is_keyword and not has_flag

    @property
    def label(self) -> str:
        return self.field.label or self.name.replace("_", " ").capitalize()

    @property
    def flag(self) -> str:
        """The unit is part of a duration, not of its flag: `--period 1m` sets `period_seconds`."""
        plain = self.name.removesuffix("_seconds") if self.kind == "duration" else self.name
        name = self.field.short or plain
        return f"--{name.replace('_', '-')}"

    @property
    def singular(self) -> str:
        """Its name where it is given value by value: `state=failed&state=cancelled`."""
        return self.field.short.replace("-", "_") or self.name

    @property
    def word(self) -> str:
        """Its name in the filter of a page: `state:failed`."""
        return self.field.word or self.singular

    @property
    def words(self) -> tuple[str, ...]:
        """The choices: of a Literal, or each of several words."""
        if self.kind == "several":
            return tuple(self.field.choices or ())
        return get_args(self.type) if self.kind == "choice" else ()

    def is_unset(self, value: Any) -> bool:
        """Whether a value says nothing: none, or a default that is empty. Zero is a value like any
        other where it is not the default."""
        return value is None or (not value and value == self.field.default)

    def read(self, value: Any) -> Any:
        """The value as plans take it; InputError if it is of the wrong type or out of range."""
        if value is None:
            if self.is_optional:
                return copy(self.field.default)
            raise self.wrong(f"{FIELD} is required", code="required")
        found = READERS[self.kind](self, value)
        if isinstance(found, int | float) and not isinstance(found, bool):
            self.check_range(found, value)
        return found if self.check is None else self._checked(self.check, found)

    def shown(self, value: Any) -> str:
        """A value in words, for people."""
        if value is None:
            return self.field.none_means or self.field.none
        if self.kind == "several":
            return ", ".join(value)
        if self.field.choices:
            return self.field.choices[value]
        if self.check is not None and self.check.write is not None:
            return self.check.write(value)
        if self.kind == "duration":
            return self.field.endless if value == math.inf else duration(value)
        if self.kind == "object":
            return json.dumps(value, ensure_ascii=False, default=str) if value else ""
        if self.kind == "flag":
            return "yes" if value else "no"
        if self.kind == "words":
            return ", ".join(value)
        if self.kind == "number":
            return f"{value:,.12g}"
        return f"{value:,}" if self.kind == "whole" else str(value)

    def parse(
        self,
        text: str,
        local: Callable[[datetime], datetime] | None = None,
        *,
        is_filter: bool = False,
    ) -> Any:
        """What a person typed. `local` gives a time without an offset the reader's time zone. A
        filter is left out to have none: the word for no value is a value like others there."""
        words = text.strip()
        has_none = self.is_optional and (self.field.none_means or not is_filter)
        if has_none and words == self.field.none and words not in self.words:
            return None
        if self.check is not None and self.check.parse is not None:
            return self.read(self.check.parse(words))
        parse = PARSERS.get(self.kind)
        return self.read(words if parse is None else parse(self, words, local))

    def _checked(self, check: Check, value: Any) -> Any:
        try:
            return check.read(FIELD, value)
        except ValueError as error:
            raise self.wrong(str(error)) from None
        except InputError as error:
            raise self.wrong(error.args[0], hint=error.advice) from None

    def check_range(self, number: float, value: Any) -> None:
        least, most = self.field.least, self.field.most
        if self.kind == "duration" and most is None:
            most = LONGEST_SECONDS
        if number == math.inf and self.field.endless:
            return
        if (least is not None and number < least) or (most is not None and number > most):
            raise self.wrong(
                f"{FIELD} must be {_range(least, most)}, not {value!r}",
                code="out_of_range",
                values={"least": least, "most": most, "given": value},
            )

    def wrong(self, message: str, **more: Any) -> InputError:
        return InputError(message, field=self.name, **more)


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"at least {least:.12g}"
    return f"at most {most:,.0f}" if least is None else f"from {least:.12g} to {most:,.0f}"


@cache
def arguments_of(function: Callable[..., Any]) -> tuple[Argument, ...]:
    """The declared arguments of a function; those of a TypedDict behind `**` are optional ones,
    whose default is not to change them."""
    hints = get_type_hints(function, include_extras=True)
    found: list[Argument] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD and name in hints:
            found += settings_of(hints[name])
        elif name in hints and field_of(hints[name]) is not None:
            has_default = parameter.default is not parameter.empty
            default = parameter.default if has_default else Missing.MISSING
            is_keyword = parameter.kind is parameter.KEYWORD_ONLY
            found.append(_argument(name, hints[name], default, is_keyword))
    return tuple(found)


@cache
def settings_of(hint: Any) -> tuple[Argument, ...]:
    """The fields of a TypedDict, or of one behind `**`."""
    settings = get_args(hint)[0] if get_origin(hint) is Unpack else hint
    if not is_typeddict(settings):
        return ()
    hints = get_type_hints(settings, include_extras=True)
    # A name without a declaration is another name of a field, for Python callers.
    declared = {name: inner for name, inner in hints.items() if field_of(inner) is not None}
    return tuple(_argument(name, inner, UNCHANGED, True) for name, inner in declared.items())


def facts_of(record: Any, settings: Any) -> list[tuple[str, str]]:
    """The label and the value of each setting of a record, in words."""
    return [(one.label, one.shown(getattr(record, one.name))) for one in settings_of(settings)]


def field_of(hint: Any) -> Field | None:
    """The declaration beside a type, if there is one."""
    if get_origin(hint) is not Annotated:
        return None
    return next((one for one in hint.__metadata__ if isinstance(one, Field)), None)


def _argument(name: str, hint: Any, default: Any, is_keyword: bool) -> Argument:
    field, (inner, *_) = field_of(hint), get_args(hint)
    assert field is not None, f"{name} has no Field"
    members = get_args(inner) if get_origin(inner) in (UnionType, Union) else (inner,)
    plain = [one for one in members if one is not NoneType]
    kind = _KINDS.get(plain[0] if len(plain) == 1 else frozenset(plain))
    origins = {get_origin(one) for one in plain}
    if kind is None and origins == {Literal}:
        kind = "choice"
    elif kind is None and (origins & {dict, abc.Mapping} or any(map(is_typeddict, plain))):
        kind = "object"
    elif kind is None and origins == {abc.Iterable}:
        kind, plain = "objects", [*get_args(get_args(plain[0])[0])]
    assert kind is not None, f"{name}: no kind of field has the type {inner}"
    is_optional = len(plain) < len(members) or field.default is not None
    shown = next((one for one in plain if is_typeddict(one)), plain[0])
    if kind == "object" and not is_typeddict(shown):
        shown = dict[str, Any] | str if str in plain else dict[str, Any]
    check = next((one for one in hint.__metadata__ if isinstance(one, Check)), None)
    return Argument(name, shown, field, kind, is_optional, default, is_keyword, check)

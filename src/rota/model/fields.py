"""Fields of records and arguments of operations, declared once and read by every interface.

A field is a type with a `Field` beside it:

    MaxWaiting = Annotated[int | None, Field("Maximum number of waiting runs.", 1000, least=0)]

`arguments_of` lists those of a function. `Argument.read` checks a value that a program passes;
`Argument.parse` reads what a person typed, and returns what `read` takes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
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
from rota.model.durations import EXAMPLES, Duration, is_duration, read_duration
from rota.model.instants import LONGEST_SECONDS, SUPPORTED, is_instant

# An instant, or a duration from now; both may be given as text.
Moment = datetime | timedelta | str
Kind = Literal["flag", "whole", "number", "duration", "moment", "choice", "words", "text"]

_KINDS: dict[Any, Kind] = {
    bool: "flag", int: "whole", float: "number", str: "text", list[str]: "words",
    frozenset(get_args(Duration)): "duration", frozenset(get_args(Moment)): "moment",
}  # fmt: skip
# The default of a setting: it keeps its value.
UNCHANGED: Any = ...
MOMENT_EXAMPLES = "2h, or 2026-11-02T08:00Z"


class Missing(Enum):
    """The default of an argument that has to be given."""

    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Field:
    """What people need to know of a field. `least` and `most` bound a number, `longest` the
    characters of a text; `choices` says what each word of a Literal means. `none` is the word that
    people type for no value, and `none_means` what that does."""

    help: str
    example: Any = None
    label: str = ""
    least: float | None = None
    most: float | None = None
    longest: int = 200
    choices: Mapping[str, str] | None = None
    none: str = "none"
    none_means: str = ""
    metavar: str = ""


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

    @property
    def is_required(self) -> bool:
        return self.default is Missing.MISSING

    @property
    def label(self) -> str:
        return self.field.label or self.name.replace("_", " ").capitalize()

    @property
    def flag(self) -> str:
        """The unit is part of a duration, not of its flag: `--period 1m` sets `period_seconds`."""
        name = self.name.removesuffix("_seconds") if self.kind == "duration" else self.name
        return f"--{name.replace('_', '-')}"

    @property
    def words(self) -> tuple[str, ...]:
        """The choices of a Literal."""
        return get_args(self.type) if self.kind == "choice" else ()

    def read(self, value: Any) -> Any:
        """The value as plans take it; InputError if it is of the wrong type or out of range."""
        if value is None:
            if self.is_optional:
                return None
            raise self._wrong(f"{self.name} is required")
        found = _READERS[self.kind](self, value)
        if isinstance(found, int | float) and not isinstance(found, bool):
            self._check_range(found, value)
        return found

    def parse(self, text: str, local: Callable[[datetime], datetime] | None = None) -> Any:
        """What a person typed. `local` gives a time without an offset the reader's time zone."""
        words = text.strip()
        if self.is_optional and words == self.field.none:
            return None
        match self.kind:
            case "whole":
                digits = words.replace(",", "").replace("_", "")
                return self.read(int(digits) if digits.lstrip("-").isdecimal() else words)
            case "number":
                return self.read(_number(words))
            case "flag":
                return self.read({"true": True, "false": False}.get(words, words))
            case "words":
                return self.read([one.strip() for one in words.split(",") if one.strip()])
            case "moment":
                return self.read(read_moment(words, local) or words)
        return self.read(words)

    def _check_range(self, number: float, value: Any) -> None:
        least, most = self.field.least, self.field.most
        if self.kind == "duration" and most is None:
            most = LONGEST_SECONDS
        if (least is not None and number < least) or (most is not None and number > most):
            raise self._wrong(f"{self.name} must be {_range(least, most)}, not {value!r}")

    def _wrong(self, message: str, **more: Any) -> InputError:
        return InputError(message, field=self.name, **more)


def _range(least: float | None, most: float | None) -> str:
    if most is None:
        return f"at least {least:.12g}"
    return f"at most {most:,.0f}" if least is None else f"from {least:.12g} to {most:,.0f}"


def _number(words: str) -> Any:
    try:
        return float(words)
    except ValueError:
        return words


def read_moment(
    words: str, local: Callable[[datetime], datetime] | None = None
) -> datetime | timedelta | None:
    """The time or the duration that a text means; None if it means neither."""
    if is_duration(words):
        return timedelta(seconds=min(read_duration(words) or 0, 2 * LONGEST_SECONDS))
    try:
        at = datetime.fromisoformat(words)
    except ValueError:
        return None
    return at if at.tzinfo is not None or local is None else local(at)


def _read_flag(argument: Argument, value: Any) -> bool:
    if not isinstance(value, bool):
        raise argument._wrong(f"{argument.name} must be true or false, not {value!r}")
    return value


def _read_whole(argument: Argument, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise argument._wrong(f"{argument.name} must be a whole number, not {value!r}")
    return value


def _read_number(argument: Argument, value: Any) -> float:
    found = None if isinstance(value, str | timedelta) else read_duration(value)
    if found is None:
        raise argument._wrong(f"{argument.name} must be a number, not {value!r}")
    return found


def _read_duration(argument: Argument, value: Any) -> float:
    found = read_duration(value)
    if found is None:
        hint = f"write seconds, or {EXAMPLES}"
        raise argument._wrong(f"{argument.name} must be a duration, not {value!r}", hint=hint)
    return found


def _read_moment(argument: Argument, value: Any) -> datetime | timedelta:
    found = read_moment(value) if isinstance(value, str) else value
    if not isinstance(found, datetime | timedelta):
        hint = f"write {MOMENT_EXAMPLES}"
        raise argument._wrong(f"{argument.name} must be a time, not {value!r}", hint=hint)
    if isinstance(found, datetime) and found.tzinfo is None:
        hint = "use a datetime with tzinfo, or an ISO 8601 time with its offset"
        raise argument._wrong(f"{argument.name} {found.isoformat()} has no time zone", hint=hint)
    if isinstance(found, datetime) and not is_instant(found):
        raise argument._wrong(f"{argument.name} is not in {SUPPORTED}")
    if isinstance(found, timedelta) and abs(found.total_seconds()) > LONGEST_SECONDS:
        raise argument._wrong(f"{argument.name} is not in {SUPPORTED}")
    return found


def _read_choice(argument: Argument, value: Any) -> str:
    if value not in argument.words:
        choices = ", ".join(argument.words)
        raise argument._wrong(
            f"{argument.name} {value!r} is not a choice", hint=f"choose from {choices}"
        )
    return str(value)


def _read_words(argument: Argument, value: Any) -> list[str]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise argument._wrong(f"{argument.name} must be a list of strings, not {value!r}")
    return [_read_text(argument, one) for one in value]


def _read_text(argument: Argument, value: Any) -> str:
    if not isinstance(value, str):
        raise argument._wrong(f"{argument.name} must be a string, not {value!r}")
    if len(value) > argument.field.longest:
        most = f"{argument.field.longest:,}"
        raise argument._wrong(
            f"{argument.name} must have at most {most} characters, not {len(value):,}"
        )
    if "\0" in value or not _is_unicode(value):
        raise argument._wrong(f"{argument.name} contains a character that Postgres cannot store")
    return value


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in value)


_READERS: dict[Kind, Callable[[Argument, Any], Any]] = {
    "flag": _read_flag, "whole": _read_whole, "number": _read_number, "duration": _read_duration,
    "moment": _read_moment, "choice": _read_choice, "words": _read_words, "text": _read_text,
}  # fmt: skip


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


def settings_of(hint: Any) -> tuple[Argument, ...]:
    """The fields of a TypedDict, or of one behind `**`."""
    settings = get_args(hint)[0] if get_origin(hint) is Unpack else hint
    if not is_typeddict(settings):
        return ()
    hints = get_type_hints(settings, include_extras=True)
    return tuple(_argument(name, inner, UNCHANGED, True) for name, inner in hints.items())


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
    if kind is None and get_origin(plain[0]) is Literal:
        kind = "choice"
    assert kind is not None, f"{name}: no kind of field has the type {inner}"
    is_optional = len(plain) < len(members)
    return Argument(name, plain[0], field, kind, is_optional, default, is_keyword)

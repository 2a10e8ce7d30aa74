"""Readers of the values of fields, by kind: what a program passes, and what a person types."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rota.hints import FIELD
from rota.model.durations import EXAMPLES, is_duration, read_duration
from rota.model.instants import LONGEST_SECONDS, SUPPORTED, is_instant
from rota.model.json_bounds import check_bounds

if TYPE_CHECKING:
    from rota.model.fields import Argument, Kind, Moment

INSTANT_EXAMPLE = "2026-11-02T08:00Z"
MOMENT_EXAMPLES = f"2h, or {INSTANT_EXAMPLE}"
# What a person types to select all names.
ALL = "all"


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
    try:
        return at if at.tzinfo is not None or local is None else local(at)
    except OverflowError:
        return None


def past_instant(at: Moment | None, now: datetime) -> datetime | None:
    """Return an instant; a duration counts back from now."""
    found = read_moment(at) if isinstance(at, str) else at
    return now - found if isinstance(found, timedelta) else found


def _read_flag(argument: Argument, value: Any) -> bool:
    if not isinstance(value, bool):
        raise argument.wrong(f"{FIELD} must be true or false, not {value!r}")
    return value


def _read_whole(argument: Argument, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise argument.wrong(f"{FIELD} must be a whole number, not {value!r}")
    return value


def _read_number(argument: Argument, value: Any) -> float:
    found = None if isinstance(value, str | timedelta) else read_duration(value)
    if found is None:
        raise argument.wrong(f"{FIELD} must be a number, not {value!r}")
    return found


def _read_duration(argument: Argument, value: Any) -> float:
    if argument.field.endless and value in (argument.field.endless, math.inf):
        return math.inf
    found = read_duration(value)
    if found is None:
        hint = f"write seconds, or {EXAMPLES}"
        raise argument.wrong(f"{FIELD} must be a duration, not {value!r}", hint=hint)
    return found


def _read_moment(argument: Argument, value: Any) -> datetime | timedelta:
    found = read_moment(value) if isinstance(value, str) else value
    if not isinstance(found, datetime | timedelta):
        hint = f"write {MOMENT_EXAMPLES}"
        raise argument.wrong(f"{FIELD} must be a time, not {value!r}", hint=hint)
    if isinstance(found, timedelta) and abs(found.total_seconds()) > LONGEST_SECONDS:
        raise argument.wrong(f"{FIELD} is not in {SUPPORTED}")
    return found if isinstance(found, timedelta) else _checked_instant(argument, found)


def _read_instant(argument: Argument, value: Any) -> datetime:
    """A time that does not depend on when it is read."""
    found = read_moment(value) if isinstance(value, str) else value
    if not isinstance(found, datetime):
        hint = f"write {INSTANT_EXAMPLE}"
        raise argument.wrong(f"{FIELD} must be a date and time, not {value!r}", hint=hint)
    return _checked_instant(argument, found)


def _checked_instant(argument: Argument, found: datetime) -> datetime:
    if found.utcoffset() is None:
        hint = "use a datetime with tzinfo, or an ISO 8601 time with its offset"
        raise argument.wrong(f"{FIELD} {found.isoformat()} has no time zone", hint=hint)
    if not is_instant(found):
        raise argument.wrong(f"{FIELD} is not in {SUPPORTED}")
    return found


def _read_choice(argument: Argument, value: Any) -> str:
    if value not in argument.words:
        choices = ", ".join(argument.words)
        raise argument.wrong(f"{FIELD} {value!r} is not a choice", hint=f"choose from {choices}")
    return str(value)


def _read_words(argument: Argument, value: Any) -> list[str]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise argument.wrong(f"{FIELD} must be a list of strings, not {value!r}")
    return [_read_text(argument, one) for one in value]


def _read_numbers(argument: Argument, value: Any) -> list[int]:
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise argument.wrong(f"{FIELD} must be a list of numbers, not {value!r}")
    found = [_read_whole(argument, one) for one in value]
    for one in found:
        argument.check_range(one, one)
    return found


def _read_several(argument: Argument, value: Any) -> list[str]:
    """One text, or a list of them."""
    found = _read_words(argument, [value] if isinstance(value, str) else value)
    return [_read_choice(argument, one) for one in found] if argument.words else found


def _read_text(argument: Argument, value: Any) -> str:
    if not isinstance(value, str):
        raise argument.wrong(f"{FIELD} must be a string, not {value!r}")
    least, most = argument.field.shortest, argument.field.longest
    if not least <= len(value) <= most:
        bounds = f"{least} to {most:,}" if least else f"at most {most:,}"
        raise argument.wrong(f"{FIELD} must have {bounds} characters, not {len(value):,}")
    if "\0" in value or not _is_unicode(value):
        raise argument.wrong(f"{FIELD} contains a character that Postgres cannot store")
    return value


def _is_unicode(value: str) -> bool:
    return not any("\ud800" <= one <= "\udfff" for one in value)


def _read_object(argument: Argument, value: Any) -> Any:
    """A field with a check of its own may take other forms than a mapping."""
    if isinstance(value, Mapping) or argument.check is not None:
        return value
    raise argument.wrong(f"{FIELD} must be an object, not {value!r}")


def _read_objects(argument: Argument, value: Any) -> list[Any]:
    """Objects, or what the check of the field takes for one."""
    if isinstance(value, str | Mapping) or not hasattr(value, "__iter__"):
        raise argument.wrong(f"{FIELD} must be a list, not {value!r}")
    return list(value)


def _read_pairs(argument: Argument, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise argument.wrong(f"{FIELD} must map keys to values, not {value!r}")
    return value


def _read_selection(argument: Argument, value: Any) -> bool | list[str]:
    if isinstance(value, bool):
        return value
    found = _read_words(argument, value)
    known = argument.field.choices or found
    for one in found:
        if one not in known:
            choices = ", ".join(known)
            raise argument.wrong(f"{FIELD} {one!r} is not a choice; choose from {choices}")
    return found


READERS: dict[Kind, Callable[[Argument, Any], Any]] = {
    "flag": _read_flag,
    "whole": _read_whole,
    "number": _read_number,
    "duration": _read_duration,
    "moment": _read_moment,
    "instant": _read_instant,
    "choice": _read_choice,
    "words": _read_words,
    "text": _read_text,
    "object": _read_object,
    "objects": _read_objects,
    "pairs": _read_pairs,
    "selection": _read_selection,
    "numbers": _read_numbers,
    "several": _read_several,
}


def _parse_object(argument: Argument, text: str) -> Any:
    """JSON, or `days=30, failed_days=90`, or a word of which the field knows what it means."""
    if text.startswith(("{", "[")):
        return _parse_json(argument, text)
    if "=" not in text:
        return text
    pairs = [one.partition("=") for one in _split(text)]
    return {name.strip(): _plain(value.strip()) for name, _, value in pairs}


def _parse_json(argument: Argument, text: str) -> Any:
    try:
        check_bounds(text.encode())
        return json.loads(text, parse_float=_exact)
    except ValueError as error:
        raise argument.wrong(f"{FIELD} is not JSON: {error}") from None


def _exact(text: str) -> float:
    """Refuse a number that would be stored with other digits than were typed."""
    found = float(text)
    if not math.isfinite(found) or Decimal(repr(found)) != Decimal(text):
        raise ValueError(f"{text[:60]} has more digits than can be stored: write it as a string")
    return found


def _plain(text: str) -> str | int:
    return int(text) if text.isdecimal() else text


def _parse_pairs(argument: Argument, text: str) -> dict[str, str]:
    """`team:billing` or `team=billing`, one in a line."""
    found = [_PAIR.fullmatch(one) for one in text.splitlines()]
    for one, line in zip(found, text.splitlines(), strict=True):
        if one is None:
            raise argument.wrong(f"{FIELD} {line!r} is not KEY:VALUE; write team:billing")
    return {one[1]: one[2] for one in found if one is not None}


_PAIR = re.compile(r"([^:=]+)[:=](.*)")


def _parse_several(argument: Argument, text: str) -> list[str]:
    """One in a line; words of a choice also as `a,b`."""
    lines = text.splitlines()
    return [word for line in lines for word in _split(line)] if argument.words else lines


def _parse_whole(text: str) -> int | str:
    digits = text.replace(",", "").replace("_", "")
    return int(digits) if digits.lstrip("-").isdecimal() else text


def _parse_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _split(text: str) -> list[str]:
    return [one.strip() for one in text.split(",") if one.strip()]


_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
# The kinds whose texts are not their values. A text that cannot be parsed is left for the reader to
# refuse.
PARSERS: dict[Kind, Callable[[Argument, str, Any], Any]] = {
    "whole": lambda _, text, local: _parse_whole(text),
    "number": lambda _, text, local: _parse_number(text),
    "flag": lambda _, text, local: _FLAGS.get(text.lower(), text),
    "words": lambda _, text, local: _split(text),
    "numbers": lambda _, text, local: [_parse_whole(one) for one in _split(text)],
    "moment": lambda _, text, local: read_moment(text, local) or text,
    "instant": lambda _, text, local: read_moment(text, local) or text,
    "object": lambda argument, text, local: _parse_object(argument, text),
    "objects": lambda argument, text, local: _parse_json(argument, text),
    "pairs": lambda argument, text, local: _parse_pairs(argument, text),
    "selection": lambda _, text, local: text == ALL or _split(text),
    "several": lambda argument, text, local: _parse_several(argument, text),
}

"""JSON that every reader can represent: bounded nesting, and no number beyond a double."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

DEEPEST = 100
# The innermost level may be empty: SQL counts values, so it accepts one level more.
_DEEPEST_READ = DEEPEST + 1
# This many digits exceed a double, and an exponent may; a text with neither needs no parsing.
_LARGE = re.compile(rb"[0-9]{309}|[0-9][eE]\+?[0-9]{3}")
_MOST_DIGITS = 309
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|([\[{])|([\]}])', re.DOTALL)


def check_bounds(raw: bytes) -> None:
    """Raise ValueError for a JSON text that a reader could not represent."""
    if is_too_deep(raw):
        raise ValueError(f"it is nested deeper than {DEEPEST} levels")
    if _LARGE.search(raw):
        json.loads(raw, parse_float=_check_float, parse_int=_check_int)


def parse_json(raw: bytes) -> Any:
    """Read JSON from outside, in UTF-8 only: `json.loads` would also read UTF-16 and UTF-32, past
    every check of the bytes. ValueError says what is wrong."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None
    found = json.loads(text, parse_constant=_refuse_constant)
    check_bounds(raw)
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


def is_too_deep(raw: bytes, most: int = DEEPEST) -> bool:
    """Count brackets, if there are enough of them at all."""
    if raw.count(b"[") + raw.count(b"{") <= most:
        return False
    depth = 0
    for found in _BRACKETS.finditer(raw):
        if found[1]:
            depth += 1
            if depth > most:
                return True
        elif found[2]:
            depth -= 1
    return False


def is_readable(raw: bytes) -> bool:
    return not is_too_deep(raw, _DEEPEST_READ)


def read_json(raw: bytes) -> Any:
    """Read any stored JSON: a value that cannot be represented becomes a text that says so."""
    if not is_readable(raw):
        note = f"unreadable: nested deeper than {DEEPEST} levels"
        return [note] if raw.lstrip()[:1] == b"[" else {"unreadable": note}
    return json.loads(raw, parse_float=_read_float, parse_int=_read_int)


def _check_float(text: str) -> float:
    found = float(text)
    if found - found != 0:
        _refuse(text)
    return found


def _check_int(text: str) -> int:
    if len(text) >= _MOST_DIGITS:
        _check_float(text)
    return 0


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"the number {_short(text)} is beyond 1.7976931348623157e308")


def _read_float(text: str) -> float | str:
    found = float(text)
    return found if found - found == 0 else f"unreadable: {_short(text)}"


def _read_int(text: str) -> int | str:
    if len(text) < _MOST_DIGITS or isinstance(_read_float(text), float):
        return int(text)
    return f"unreadable: {_short(text)}"


def _short(text: str) -> str:
    return text if len(text) <= 20 else f"{text[:20]}… ({len(text)} characters)"

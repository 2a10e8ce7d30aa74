"""Durations, instants, JSON and lists from text. Invalid values fail before anything is sent."""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

import typer

from rota.cli.terminal import times
from rota.model.durations import EXAMPLES, is_duration, read_duration
from rota.model.instants import LONGEST_SECONDS, SUPPORTED, is_instant
from rota.model.json_bounds import check_bounds

DURATION = EXAMPLES
TIME = "2026-01-31T14:30 or 2026-01-31T14:30:00Z"
_PAYLOADS = ("JSON", "PAYLOAD", "--payload", "--default-payload")
NOTHING = "nothing to update: pass at least one option"


def refuse(option: str, message: str) -> NoReturn:
    raise typer.BadParameter(message, param_hint=f"'{option}'")


def seconds(text: str | None, option: str) -> float | None:
    """Read a duration, as every interface does; a bare number is seconds."""
    if text is None:
        return None
    found = read_duration(text)
    if found is None:
        refuse(option, f"{text!r} is not a duration; write {DURATION}")
    if found > LONGEST_SECONDS:
        refuse(option, f"{text!r} is longer than 100 years")
    return found


def key_keep(text: str | None) -> float | Literal["forever"] | None:
    return "forever" if text == "forever" else seconds(text, "--key-keep")


def instant(text: str | None, option: str) -> datetime | None:
    """Read ISO 8601; without a zone it is in the viewer's zone."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        refuse(option, f"{text!r} is not a time; write {TIME}")
    try:
        at = found if found.tzinfo is not None else times.local(found)
    except OverflowError:
        at = None
    if at is None or not is_instant(at):
        refuse(option, f"{text!r} is not in {SUPPORTED}")
    return at


def since(text: str | None, option: str) -> datetime | timedelta | None:
    """Read a duration back from now, or an instant."""
    if text is None:
        return None
    if is_duration(text):
        return timedelta(seconds=seconds(text, option) or 0)
    try:
        return instant(text, option)
    except typer.BadParameter:
        refuse(option, f"{text!r} is neither a duration ({DURATION}) nor a time (2026-01-31T14:30)")


def choice(text: str | None, allowed: tuple[str, ...], option: str) -> Any:
    """Read one of these words; None if none is given."""
    if text is not None and text not in allowed:
        noun = option.lstrip("-").replace("-", " ")
        refuse(option, f"unknown {noun} {text!r}; choose from {', '.join(allowed)}")
    return text


def pairs(given: list[str] | None, option: str) -> dict[str, str] | None:
    """Read each as `key:value`."""
    found = [text.partition(":") for text in given or []]
    for key, colon, _ in found:
        if not key or not colon:
            refuse(option, f"{key!r} is not KEY:VALUE; write team:billing")
    return {key: value for key, _, value in found} or None


def names(text: str | None) -> list[str] | None:
    """Read `a,b`."""
    if text is None:
        return None
    return [part.strip() for part in text.split(",") if part.strip()]


def payload(text: str | None, option: str) -> dict[str, Any] | None:
    """Read a JSON object: the text itself, `@file`, or `-` for standard input."""
    if text is None:
        return None
    try:
        raw = content(text, option)
        check_bounds(raw.encode())
        value = json.loads(raw)
    except ValueError as error:
        refuse(option, f"not JSON: {error}")
    if not isinstance(value, dict):
        like = ', like {"user_id": 7}' if option in _PAYLOADS else ""
        refuse(option, f"must be a JSON object{like}, not {raw.strip()[:60]}")
    return value


def backoff(text: str | None) -> Any:
    if text is None or not text.strip().startswith(("{", "@", "-")):
        return text
    return payload(text, "--backoff")


def content(text: str, option: str) -> str:
    """Read `@file`, or `-` for standard input; other texts are the content."""
    try:
        if text == "-":
            return sys.stdin.read()
        return Path(text[1:]).read_text("utf-8") if text.startswith("@") else text
    except OSError as error:
        refuse(option, f"cannot read {text[1:]}: {error.strerror}")

"""Log lines as pages show them. Long lines are cut, with a link to the whole line."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from markupsafe import Markup, escape

from rota.model.log import LogLine
from rota.model.printable import entry, in_json, one_line
from rota.model.unreadable import Unreadable

GLYPHS = {
    "debug": "pending",
    "info": "info",
    "warning": "warn",
    "error": "failed",
    "critical": "failed",
}
_MOST_TEXT = 4000
_MOST_INLINE = 120
_MOST_FIELDS = 12


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class LogRow:
    """`inline` are the fields that fit beside the message; `fields` are all fields."""

    key: str
    at: datetime
    clock: str
    full: str
    level: str
    kind: str
    glyph: str
    run_id: int
    attempt: int
    worker: int
    job: str
    tenant: str
    message: Markup
    is_cut: bool
    inline: list[Field]
    fields: list[Field]
    words: tuple[str, ...]

    @property
    def path(self) -> str:
        """The page of this line alone, uncut."""
        return f"/logs/line/{self.key}"

    @property
    def run_path(self) -> str:
        return f"/runs/{self.run_id}"

    @classmethod
    def of(
        cls,
        line: LogLine,
        zone: tzinfo,
        now: datetime,
        wanted: Sequence[str] = (),
        most: int = _MOST_TEXT,
    ) -> LogRow:
        message = line.message[:most]
        fields, is_whole = _fields(line.fields, most)
        return cls(
            key=str(line.key),
            at=line.at,
            clock=_clock(line.at, zone, now),
            full=_full(line.at, zone),
            level=line.level,
            kind="error" if line.level == "critical" else line.level,
            glyph=GLYPHS.get(line.level, "info"),
            run_id=line.run_id,
            attempt=line.attempt,
            worker=line.worker,
            job=line.job,
            tenant=line.tenant,
            message=mark(message, wanted),
            is_cut=len(line.message) > most or not is_whole,
            inline=[field for field in fields if _is_short(field.value)][:_MOST_FIELDS],
            fields=fields,
            words=tuple(wanted),
        )

    def marked(self, text: str) -> Markup:
        return mark(text, self.words)


def mark(text: str, wanted: Sequence[str]) -> Markup:
    """Escape the text and mark the searched words."""
    found = [re.escape(word) for word in wanted if word]
    if not found:
        return escape(text)
    parts = re.split(f"({'|'.join(found)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if n % 2 else escape(part)
        for n, part in enumerate(parts)
    )


def _fields(given: Any, most: int) -> tuple[list[Field], bool]:
    if not given:
        return [], True
    pairs = given.items() if isinstance(given, dict) else [("fields", given)]
    found = [Field(str(name), _text(value)) for name, value in pairs]
    cut = [Field(field.name, field.value[:most]) for field in found[:200]]
    return cut, cut == found


def _text(value: Any) -> str:
    """Write numbers with their stored digits."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _is_short(value: str) -> bool:
    return len(value) <= _MOST_INLINE and "\n" not in value


def _clock(at: datetime, zone: tzinfo, now: datetime) -> str:
    if isinstance(at, Unreadable):
        return str(at)
    local = at.astimezone(zone)
    text = f"{local:%H:%M:%S}.{local.microsecond // 1000:03}"
    return text if local.date() == now.astimezone(zone).date() else f"{local.day} {local:%b} {text}"


def _full(at: datetime, zone: tzinfo) -> str:
    if isinstance(at, Unreadable):
        return str(at)
    local = at.astimezone(zone)
    return f"{local:%a} {local.day} {local:%b %Y, %H:%M:%S.%f} {local.tzname()}"


def as_text(line: LogLine) -> str:
    """Return the line for a text file, which people read in a terminal. Further lines of the
    message are indented, so that none looks like a line of the log."""
    fields = "".join(f" {field.name}={field.value}" for field in _fields(line.fields, 1_000_000)[0])
    source = f"run={line.run_id} attempt={line.attempt} {one_line(line.job)}"
    text = entry(f"{line.message}{fields}", "    ")
    return f"{line.at.isoformat()} {line.level:<8} {source} {text}\n"


def as_json(line: LogLine) -> str:
    found = {name: getattr(line, name) for name in LogLine.__slots__}
    return in_json(json.dumps(found, ensure_ascii=False, default=str)) + "\n"

"""Reads forms within size limits, and only those that come from pages of this dashboard."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from rota.api.errors import ProblemError
from rota.errors import PayloadError
from rota.model.durations import is_duration, read_duration
from rota.model.instants import LONGEST_SECONDS
from rota.web.session import CSRF, is_masked

MOST_FIELDS = 2000
# Key in the ASGI scope: the page on which a question was asked in a dialog.
CAME_FROM = "rota.came_from"


class Form(Mapping[str, str]):
    """The fields by name. If a name occurs several times, the last value counts; `all` returns
    each."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self.pairs = pairs
        self._last = dict(pairs)

    def __getitem__(self, name: str) -> str:
        return self._last[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._last)

    def __len__(self) -> int:
        return len(self._last)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.pairs if key == name]

    def text(self, name: str) -> str | None:
        """Return None if the field is blank."""
        return self._last.get(name, "").strip() or None


async def read_form(request: Request) -> Form:
    """Refuse forms that do not come from our pages: a form of another site lacks our cookie, or its
    value."""
    body: bytes = request.scope.get("rota.body", b"")
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS, errors="strict"
        )
    except ValueError as error:
        raise ProblemError(400, "malformed", f"the form cannot be read: {error}") from None
    if any("\0" in text for pair in pairs for text in pair):
        raise ProblemError(400, "malformed", "a field contains a NUL character")
    form = Form(pairs)
    _check_csrf(request, form)
    if came := form.text("came_from"):
        request.scope[CAME_FROM] = inside(came)
    return form


def _check_csrf(request: Request, form: Form) -> None:
    given, kept = form.get("csrf", ""), request.cookies.get(CSRF, "")
    if not kept or not is_masked(kept, given):
        raise ProblemError(
            403, "csrf", "this form has expired: go back, reload the page, and submit it again"
        )


def inside(path: str) -> str:
    r"""Return a path to go to, never one of another site: browsers read `//host` and `/\host` as
    other hosts, and leave out tabs and line ends before they read. An address has none of these,
    nor a space: they are encoded in it."""
    is_plain = path.isascii() and path.isprintable() and not {" ", "\\"} & set(path)
    return path if is_plain and path.startswith("/") and path[1:2] != "/" else "/"


def read_payload(text: str) -> dict[str, Any] | None:
    """Return the typed object; None if nothing was typed."""
    if not text.strip():
        return None
    try:
        found = json.loads(text, parse_float=_exact)
    except ValueError as error:
        raise PayloadError(f"This is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise PayloadError("This must be an object: { … }")
    return found


def _exact(text: str) -> float:
    """Refuse a number that would be stored with other digits than were typed; the user would not
    notice the change."""
    found = float(text)
    if not math.isfinite(found) or Decimal(repr(found)) != Decimal(text):
        raise PayloadError(f"{text[:60]} has more digits than can be stored: write it as a string")
    return found


def read_span(text: str) -> timedelta | None:
    """Read `90s`, `15min`, `1h30m`, `7d`; return None for anything else."""
    seconds = read_duration(text) if is_duration(text) else None
    if seconds is None or seconds > LONGEST_SECONDS:
        return None
    return timedelta(seconds=seconds)

"""The filter of the audit: the address is the filter, and every part of it is shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, tzinfo
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from rota.admin.reports.audit import AuditFilters
from rota.errors import FilterError, TimingError
from rota.web.forms import read_time

# As the page calls them, and what the use case does.
KEYS = {
    "noun": "object_type", "name": "object_id", "actor": "actor", "action": "action",
    "tenant": "tenant", "since": "since", "until": "until",
}  # fmt: skip
SPANS = {"": "Any time", "24h": "24 h", "7d": "7 d", "30d": "30 d"}
NOUNS = (
    "run", "schedule", "job", "queue", "tenant", "limit", "worker", "calendar", "error", "bulk",
    "event", "watch",
)  # fmt: skip
_WORD = re.compile(r'(\w+):("[^"]*"|\S+)|"([^"]*)"|(\S+)')


@dataclass(frozen=True, slots=True)
class AuditQuery:
    """What the address asks for; times without a zone are in the viewer's."""

    parts: dict[str, str]
    cursor: str | None = None
    zone: tzinfo = UTC

    @classmethod
    def read(cls, given: QueryParams, zone: tzinfo) -> AuditQuery:
        """`q` is what somebody typed: `actor:ada noun:queue`; a bare word is a name."""
        parts = {key: value for key in KEYS if (value := given.get(key, "").strip()[:300])}
        for key, value, quoted, word in _WORD.findall(given.get("q", "")[:1000]):
            if key and key not in KEYS:
                raise FilterError(f"unknown filter {key}", hint=f"choose from {', '.join(KEYS)}")
            parts[key or "name"] = (value or quoted or word).strip('"')
        return cls(parts, None if given.get("q") else given.get("cursor"), zone)

    @property
    def filters(self) -> AuditFilters:
        found: AuditFilters = {}
        for key, value in self.parts.items():
            if key in ("since", "until"):
                found[KEYS[key]] = self._time(key, value)  # type: ignore[literal-required]
            else:
                found[KEYS[key]] = value  # type: ignore[literal-required]
        return found

    def _time(self, key: str, value: str) -> object:
        try:
            return read_time(value, self.zone)
        except TimingError as error:
            raise FilterError(f"{key}: {error}") from None

    @property
    def tokens(self) -> list[tuple[str, str, str]]:
        """Every part, with the list without it."""
        return [(key, value, self.path(**{key: None})) for key, value in self.parts.items()]

    @property
    def nouns(self) -> tuple[str, ...]:
        return NOUNS

    @property
    def spans(self) -> dict[str, str]:
        return SPANS

    def path(self, **changes: str | None) -> str:
        """The same with some of it changed; another list begins at its beginning."""
        pairs = {key: value for key, value in (self.parts | changes).items() if value}
        return f"/audit?{urlencode(pairs)}" if pairs else "/audit"

    def at(self, cursor: str) -> str:
        return replace(self, parts={**self.parts, "cursor": cursor}).path()

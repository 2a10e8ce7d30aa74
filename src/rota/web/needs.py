"""Things that need attention, each kind with its button."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from rota.model.attention import Attention, AttentionItem
from rota.model.finding import Report
from rota.model.formatting import plural
from rota.operations.reports.needs import KINDS
from rota.web.context import NavItem

_PLACES = {
    "job": "/jobs",
    "queue": "/queues",
    "schedule": "/schedules",
    "run": "/runs",
    "worker": "/workers",
    "limit": "/limits",
    "tenant": "/tenants",
}
# In the navigation: the section, and the word for its problem.
_SECTIONS = {
    "job": ("jobs", "failing"),
    "queue": ("queues", "full or paused"),
    "schedule": ("schedules", "late, missed or stopped"),
    "run": ("runs", "slow"),
    "worker": ("workers", "with problems"),
    "limit": ("limits", "blocked or corrected"),
    "tenant": ("tenants", "paused"),
}
_WORDS = {kind.name: (kind.one, kind.many) for kind in KINDS}


@dataclass(frozen=True, slots=True)
class Row:
    """`path` is the page of the item. The button has a text, a target (`to`), and `asks` if a
    confirmation follows."""

    need: AttentionItem
    path: str
    button: str
    to: str
    asks: bool = False


@dataclass(frozen=True, slots=True)
class More:
    """The items of a kind that are not listed."""

    state: str
    text: str
    path: str


def rows(found: Attention) -> list[Row]:
    return [_row(need) for need in found.needs]


def more(found: Attention) -> list[More]:
    listed: dict[str, int] = {}
    for need in found.needs:
        listed[need.kind] = listed.get(need.kind, 0) + 1
    return [
        More(
            kind.state,
            plural(left, *(f"more {it}" for it in _WORDS[kind.kind])),
            "/schedules?attention=1" if kind.subject == "schedule" else _PLACES[kind.subject],
        )
        for kind in found.kinds
        if (left := kind.count - listed.get(kind.kind, 0)) > 0
    ]


def path_of(need: AttentionItem) -> str:
    place = _PLACES.get(need.subject, "/")
    if need.subject == "worker":
        worker = need.figures.get("worker")
        return f"{place}/{worker}" if worker is not None else place
    path = f"{place}/{quote(need.name, safe='')}"
    return f"{path}?{urlencode({'tenant': need.tenant})}" if need.tenant else path


def _row(need: AttentionItem) -> Row:
    path = path_of(need)
    bare, _, query = path.partition("?")
    tail = f"?{query}" if query else ""
    match need.kind:
        case "failing_job":
            return Row(need, path, "See errors", f"/errors?{urlencode({'job': need.name})}")
        case "refused_payload" | "unserved_work" if need.subject == "job":
            waiting = urlencode({"job": need.name, "state": "queued"})
            return Row(need, path, "See waiting runs", f"/runs?{waiting}")
        case "full_queue":
            return Row(need, path, "Change the cap…", f"{path}/set", asks=True)
        case "paused_queue" | "paused_tenant":
            return Row(need, path, "Resume…", f"{path}/resume", asks=True)
        case "stopped_schedule":
            return Row(need, path, "Resume…", f"{bare}/resume{tail}", asks=True)
        case "missed_schedule":
            return Row(need, path, "Backfill…", f"{bare}/backfill{tail}")
        case "late_schedule" | "parked_schedule" | "orphaned_schedule":
            return Row(need, path, "Why?", path)
    return Row(need, path, "Open", path)


def alarm(
    item: NavItem, found: Attention | None, report: Report | None
) -> tuple[int, str, str] | None:
    """Return the alarm beside the title of a navigation entry."""
    if item.key == "health":
        count = report.bad + report.warn if report else 0
        state = "failed" if report and report.bad else "warn"
        return (count, state, "finding" if count == 1 else "findings") if count else None
    if found is None or not found.total:
        return None
    if item.key == "overview":
        word = "needs attention" if found.total == 1 else "need attention"
        return found.total, found.kinds[0].state, word
    kinds = [kind for kind in found.kinds if _SECTIONS.get(kind.subject, ("",))[0] == item.key]
    if not kinds:
        return None
    return sum(kind.count for kind in kinds), kinds[0].state, _SECTIONS[kinds[0].subject][1]

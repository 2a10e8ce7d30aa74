"""Audit entries in words: what an entry changed, and the entries that are one deed. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from rota.model.audit import AuditEntry, Change
from rota.model.schedule_fields import defaults
from rota.web.schedule_values import label_of, value_of

# What the action and its object already say, and what is bookkeeping.
_SAID = frozenset(
    {
        "name",
        "tenant",
        "state",
        "is_paused",
        "paused_by",
        "paused_at",
        "pause_reason",
        "reason",
        "is_enabled",
        "version",
        "code",
        "edited_fields",
        "edited",
        "updated_by",
        "updated_at",
        "created_by",
        "created_at",
        "declared_by",
        "is_declared",
        "has_seconds",
        "is_draining",
        "run_id",
    }
)
# What a new schedule, limit or job has unless something else was chosen.
_USUAL: dict[str, Any] = defaults() | {
    "is_enabled": True,
    "on_full": "wait",
    "when_full": "refuse",
    "queue": "default",
    "weight": 1,
}
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_SWITCHES = ("paused", "resumed", "enabled", "disabled", "drained")
_MOST_WORDS, _LONGEST = 6, 80
# As many entries alike, each so soon after the one before, are shown as one.
_FEWEST, _GAP = 5, timedelta(seconds=10)


def told(entry: AuditEntry) -> list[tuple[str, str, str]]:
    """Return label, value before and value after of what is worth saying: of something new, what is
    not as usual; the value before is empty if there was none."""
    is_new = entry.before is None
    return [
        (label_of(one.field), _brief(one, one.before) if not is_new else "", _brief(one, one.after))
        for one in entry.changes
        if not one.is_same and not _goes_without_saying(entry, one, is_new)
    ]


def _goes_without_saying(entry: AuditEntry, one: Change, is_new: bool) -> bool:
    if one.field in _SAID:
        # An edit that switches says so; an action that switches is called so.
        is_switch = entry.action.rpartition(".")[2] in _SWITCHES
        return is_switch or is_new or one.field not in ("is_enabled", "is_paused")
    is_nothing = one.after is False or one.after in _NOTHING
    return is_new and (is_nothing or _USUAL.get(one.field) == one.after)


def _brief(one: Change, value: Any) -> str:
    text = " ".join(value_of(one.field, value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def brief(entry: AuditEntry) -> str:
    """Return what changed on one line: `priority 5 → 1, queue mail`."""
    words = [
        f"{label} {old} → {new}" if old else f"{label} {new}" for label, old, new in told(entry)
    ]
    more = f" and {len(words) - _MOST_WORDS} more" if words[_MOST_WORDS:] else ""
    return ", ".join(words[:_MOST_WORDS]) + more


def deeds(entries: Sequence[AuditEntry]) -> Iterator[list[AuditEntry]]:
    """Put together what somebody did to many objects at once, such as a bulk action to its runs."""
    deed: list[AuditEntry] = []
    for entry in entries:
        if deed and not _is_same(deed[-1], entry):
            yield from _folded(deed)
            deed = []
        deed.append(entry)
    yield from _folded(deed)


def _folded(deed: list[AuditEntry]) -> list[list[AuditEntry]]:
    return [deed] if len(deed) >= _FEWEST else [[entry] for entry in deed]


def _is_same(one: AuditEntry, other: AuditEntry) -> bool:
    return (one.actor, one.action, one.object_type, one.reason) == (
        other.actor,
        other.action,
        other.object_type,
        other.reason,
    ) and abs(one.at - other.at) <= _GAP

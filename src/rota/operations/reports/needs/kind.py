"""The structure of every kind: how its rows are read, and how a row is put into words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

from rota.model.attention import AttentionItem
from rota.postgres.plans import Plan, rows_of

Row = TypeVar("Row")


class Found(NamedTuple):
    """The first items, and the number of all."""

    needs: list[AttentionItem]
    total: int


@dataclass(frozen=True, slots=True)
class AttentionText:
    """A row as a sentence (`Need`). `state`, `subject` and `noun` are the kind's unless given."""

    name: str
    says: str
    reason: str | None
    since: datetime | None
    command: str
    figures: dict[str, Any] = field(default_factory=dict)
    tenant: str = ""
    state: str | None = None
    subject: str | None = None
    noun: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """`read` gets the number of items to show, and returns their texts and the total. `one` and
    `many` name items of this kind."""

    name: str
    subject: str
    state: str
    read: Callable[[int], Plan[tuple[Sequence[AttentionText], int]]]
    one: str
    many: str

    def find(self, limit: int) -> Plan[Found]:
        items, total = yield from self.read(limit)
        return Found([self._need(text) for text in items], total)

    def _need(self, one: AttentionText) -> AttentionItem:
        subject = one.subject or self.subject
        return AttentionItem(
            kind=self.name,
            state=one.state or self.state,
            subject=subject,
            name=one.name,
            noun=one.noun or subject.capitalize(),
            says=one.says,
            reason=one.reason,
            since=one.since,
            tenant=one.tenant,
            figures=one.figures,
            command=one.command,
        )


def every(
    rows: Callable[[], Plan[list[Row]]], say: Callable[[Row], AttentionText | None]
) -> Callable[[int], Plan[tuple[Sequence[AttentionText], int]]]:
    """Read all rows; a row without a text does not count."""

    def read(limit: int) -> Plan[tuple[Sequence[AttentionText], int]]:
        texts = [words for row in (yield from rows()) if (words := say(row)) is not None]
        return texts[:limit], len(texts)

    return read


def first(
    kind: type[Any], say: Callable[[Any], AttentionText]
) -> Callable[[int], Plan[tuple[Sequence[AttentionText], int]]]:
    """Read the first rows; each contains the total."""

    def read(limit: int) -> Plan[tuple[Sequence[AttentionText], int]]:
        found = yield from rows_of(kind, limit=limit)
        return [say(row) for row in found], found[0].total if found else 0

    return read


def pause_words(by: str | None, reason: str | None, until: datetime | None) -> str:
    why = f": “{reason}”" if reason else ""
    end = f"until {until.astimezone(UTC):%d %b, %H:%M} UTC" if until else "no end set"
    return f"by {by or 'somebody'}{why}, {end}"

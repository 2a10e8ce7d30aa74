"""The form of a limit: what was typed, and what it means."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rota.errors import LimitError
from rota.model.limit import LimitInfo
from rota.model.words import plain
from rota.web.forms import Form

# Of the columns that are numbers: how they are read.
_NUMBERS = {"cap": int, "burst": int, "period_seconds": float}


@dataclass(frozen=True, slots=True)
class LimitDraft:
    """Texts, as the fields of the form hold them."""

    kind: str = "concurrency"
    cap: str = ""
    period_seconds: str = ""
    burst: str = ""
    cost: str = ""
    next_after: str = "end"
    on_full: str = "wait"
    queue: str = ""
    jobs: str = ""
    schedule: str = ""
    key: str = ""


def draft_of(limit: LimitInfo) -> LimitDraft:
    return LimitDraft(
        kind=limit.kind,
        cap=str(limit.cap),
        period_seconds="" if limit.period_seconds is None else plain(limit.period_seconds),
        burst="" if limit.burst is None else str(limit.burst),
        cost=limit.cost or "",
        next_after=limit.next_after or "end",
        on_full=limit.on_full,
        queue=limit.queue or "",
        jobs=", ".join(limit.jobs or []),
        schedule=limit.schedule or "",
        key=limit.key or "",
    )


def read_draft(form: Form) -> LimitDraft:
    return LimitDraft(**{name: form.text(name) or "" for name in asdict(LimitDraft())})


def changes_of(draft: LimitDraft) -> dict[str, Any]:
    """As `app.limits.set` takes them: what does not belong to the kind goes."""
    given: dict[str, Any] = {name: text or None for name, text in asdict(draft).items()}
    for name, read in _NUMBERS.items():
        if given[name] is not None:
            try:
                given[name] = read(given[name])
            except ValueError:
                raise LimitError(f"{name} must be a number, not {given[name]!r}") from None
    given["jobs"] = [one.strip() for one in draft.jobs.split(",") if one.strip()] or None
    if draft.kind != "rate":
        given |= {"period_seconds": None, "burst": None, "cost": None}
    if draft.kind == "sequence":
        given["cap"] = 1
    else:
        given["next_after"] = None
    return given

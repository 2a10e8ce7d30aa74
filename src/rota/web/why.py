"""The panel that says why: any page calls `why_of`, and shows the panel with `{{ why_panel(why, …)
}}`."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from rota.model.why import Kind, Why
from rota.web.page_scope import PageScope

# The question of the panel, by the code of its main reason; all others ask why it waits.
_QUESTIONS = {
    **dict.fromkeys(("running", "running_isolated", "claimed_ahead"), "What is it doing?"),
    **dict.fromkeys(("at_work", "idle", "runs_for_later", "job_failing"), "What is its status?"),
    **dict.fromkeys(
        ("waits_for_next", "waits_for_start", "rescheduled", "due"), "When does it run?"
    ),
    **dict.fromkeys(("schedule_ran", "schedule_failing"), "How did it go?"),
    "run_succeeded": "How did it end?",
    "run_cancelled": "Why was it cancelled?",
    "run_expired": "Why was it cancelled?",
    **dict.fromkeys(
        ("run_failed", "attempts_used_up", "gave_up", "job_never_known"), "Why did it fail?"
    ),
}
_WAITING = {"schedule": "Why is it not running?"}
# Facts that have a page, and the kind of record that it shows.
_PAGES = (
    ("run", "run"),
    ("other", "run"),
    ("longest", "run"),
    ("queue", "queue"),
    ("worker", "worker"),
    ("job", "job"),
)


@dataclass(frozen=True, slots=True)
class ShownReason:
    """A reason, and the pages of the records it names."""

    sentence: str
    since: datetime | None
    until: datetime | None
    is_past: bool
    links: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class WhyPanel:
    """Reasons, the next event, and actions that would change it."""

    question: str
    reasons: list[ShownReason]
    next_step: str
    commands: list[str]


async def why_of(scope: PageScope, subject: str | int, kind: Kind, tenant: str = "") -> WhyPanel:
    return panel_of(await scope.why(subject, kind=kind, tenant=tenant))


def panel_of(why: Why) -> WhyPanel:
    first = why.reasons[0]
    links = _links(why)
    shown = [
        ShownReason(reason.sentence, reason.since, reason.until, reason.is_past, to)
        for reason, to in zip(why.reasons, links, strict=True)
    ]
    # Each command once, in the order of the reasons.
    commands = list(dict.fromkeys(reason.command for reason in why.reasons if reason.command))
    question = _QUESTIONS.get(first.code, _WAITING.get(why.kind, "Why is it waiting?"))
    return WhyPanel(question, shown, first.next_step, commands[:4])


def _links(why: Why) -> list[list[tuple[str, str]]]:
    """Return links to the records that each reason names; each once, without the page itself."""
    seen: set[tuple[str, str]] = {(why.kind, why.name)}
    found = []
    for reason in why.reasons:
        named = [(kind, str(reason.facts[key])) for key, kind in _PAGES if key in reason.facts]
        new = [record for record in dict.fromkeys(named) if record not in seen]
        seen.update(new)
        found.append([_link(kind, name) for kind, name in new])
    return found


def _link(kind: str, name: str) -> tuple[str, str]:
    return f"{kind.capitalize()} {name}", f"/{kind}s/{quote(name, safe='')}"

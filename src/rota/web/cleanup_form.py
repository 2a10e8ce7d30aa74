"""The form of a cleanup: what was typed, and what it means."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rota.errors import InputError
from rota.model.cleanup import DEFAULT_CRON
from rota.web.forms import Form

UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, slots=True)
class CleanupDraft:
    """Texts, as the fields of the form hold them."""

    table: str = ""
    column: str = ""
    age: str = "7"
    unit: str = "days"
    where: str = ""
    name: str = ""
    cron: str = DEFAULT_CRON
    timezone: str = "UTC"
    reason: str = ""


def read_cleanup(form: Form) -> CleanupDraft:
    return CleanupDraft(**{name: form.text(name) or "" for name in asdict(CleanupDraft())})


def age_of(draft: CleanupDraft) -> float:
    """In seconds; InputError if it is no number."""
    try:
        return float(draft.age) * UNITS[draft.unit]
    except (ValueError, KeyError):
        units = ", ".join(UNITS)
        raise InputError(f"the age must be a number of {units}, not {draft.age!r}") from None

"""The form of a cleanup: its texts, and their meaning."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rota.errors import InputError
from rota.model.cleanup import DEFAULT_CRON
from rota.web.forms import Form

UNITS = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


@dataclass(frozen=True, slots=True)
class CleanupDraft:
    """The fields of the form as texts."""

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
    """Return the age in seconds; raise InputError if it is not a number."""
    try:
        return float(draft.age) * UNITS[draft.unit]
    except (ValueError, KeyError):
        units = ", ".join(UNITS)
        raise InputError(f"the age must be a number of {units}, not {draft.age!r}") from None

"""The forecast of the coming days."""

from __future__ import annotations

from rota.api.schemas.views import list_of, view
from rota.timing.load import Day, LeftOut, Load, PileUp, PredictedOverlap, Suggestion

_DAY = {"day": "2026-03-09", "hours": [0] * 8 + [12] + [0] * 15}
_PILE_UP = {"at": "08:00", "count": 12, "days": 7, "schedules": ["digest", "report"]}
_OVERLAP = {
    "schedule": "report",
    "gap_seconds": 60.0,
    "avg_duration_ms": 48000.0,
    "max_duration_ms": 75000.0,
    "is_usual": False,
}
_SUGGESTION = {"at": "08:00", "jitter_seconds": 180.0, "schedules": ["digest", "report"]}

DayView = view(
    Day,
    "SimulatedDay",
    {"day": "A local day.", "hours": "Number of runs that start in each hour."},
    _DAY,
)
PileUpView = view(
    PileUp,
    "PileUp",
    {
        "at": "The local time of day.",
        "count": "Maximum starts in that minute.",
        "days": "On how many days.",
        "schedules": "Schedules that start then.",
    },
    _PILE_UP,
)
OverlapView = view(
    PredictedOverlap,
    "PredictedOverlap",
    {
        "schedule": "Schedule.",
        "gap_seconds": "Shortest time between two runs.",
        "avg_duration_ms": "Average duration.",
        "max_duration_ms": "Longest duration.",
        "is_usual": "Whether the average run overlaps; if not, only long ones do.",
    },
    _OVERLAP,
)
SuggestionView = view(
    Suggestion,
    "Suggestion",
    {
        "at": "Local time of the pile-up.",
        "jitter_seconds": "Jitter that would spread it.",
        "schedules": "Schedules to apply it to.",
    },
    _SUGGESTION,
)
_LEFT_OUT = {"schedule": "report", "reason": "calendar 'de': timezone must be a string, not 7"}
LeftOutView = view(
    LeftOut,
    "LeftOut",
    {"schedule": "Schedule.", "reason": "Why its timing or calendar cannot be computed."},
    _LEFT_OUT,
)
LoadView = view(
    Load,
    "Simulation",
    {
        "from_at": "Start of the period.",
        "until_at": "End of the period.",
        "timezone": "Time zone of the days and times.",
        "total": "Total runs.",
        "days": "By day and hour.",
        "pile_ups": "Minutes in which many start.",
        "overlaps": "Schedules whose runs take longer than the time between them.",
        "suggestions": "Suggestions.",
        "left_out": "Schedules whose timing cannot be computed; not counted.",
    },
    {
        "from_at": "2026-03-09T00:00:00Z",
        "until_at": "2026-03-16T00:00:00Z",
        "timezone": "UTC",
        "total": 84,
        "days": [_DAY],
        "pile_ups": [_PILE_UP],
        "overlaps": [_OVERLAP],
        "suggestions": [_SUGGESTION],
        "left_out": [_LEFT_OUT],
    },
    days=list_of(DayView),
    pile_ups=list_of(PileUpView),
    overlaps=list_of(OverlapView),
    suggestions=list_of(SuggestionView),
    left_out=list_of(LeftOutView),
)

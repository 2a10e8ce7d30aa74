"""Statistics, trends, the overview, what needs attention, and the doctor's report."""

from __future__ import annotations

from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.operations.reports.attention import AttentionCommands
from rota.operations.reports.doctor import DoctorCommands
from rota.operations.reports.overview import OverviewCommands
from rota.operations.reports.stats import StatsCommands

routes = router("stats")
_ABOUT_JOB = problems(404)

# A day by the minute is 20,000 values.
add_read(routes, "/stats", "get_stats", "stats", StatsCommands.get, _ABOUT_JOB, is_large=True)
add_read(
    routes, "/stats/trend", "get_trend", "stats", StatsCommands.trend, _ABOUT_JOB, is_large=True
)
add_read(routes, "/overview", "get_overview", "overview", OverviewCommands.get)
add_read(routes, "/attention", "get_attention", "attention", AttentionCommands.get)
add_read(routes, "/doctor", "get_doctor", "doctor", DoctorCommands.get)

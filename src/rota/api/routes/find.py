"""Search by name or id, and explanations of why something does not run."""

from __future__ import annotations

from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.operations.reports.find import FindCommands
from rota.operations.reports.why import WhyCommands

routes = router("find")
add_read(routes, "/find", "find", "find", FindCommands.named)
why_routes = router("why")
add_read(why_routes, "/why", "why", "why", WhyCommands.ask, problems(404))

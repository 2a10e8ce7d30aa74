"""Retention: preview what would be removed, and run a pass."""

from __future__ import annotations

from typing import Any

from rota.api.operations import add_route, query_of, shaped, summary_of
from rota.api.reads import add_read
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.views import view_of
from rota.api.state import RequestScope
from rota.model.fields import arguments_of
from rota.model.retention import RetentionResult
from rota.operations.reading import plan_behind
from rota.operations.retention import RetentionCommands

routes = router("retention")
_RUN = plan_behind(RetentionCommands.run)
_ABOUT = (
    "Returns when done, which may take minutes. To avoid waiting, trigger the schedules "
    "`rota.prune_runs` and `rota.prune_logs`: a worker does it, and the result of the run lists "
    "what was deleted."
)


async def _run(scope: RequestScope, **given: Any) -> Any:
    return await scope.retention.run(**given)


add_read(routes, "/retention/plan", "plan_retention", "retention", RetentionCommands.plan)
# By hand: it has no target, and takes its time.
_RUN_PARAMETERS = [query_of(one) for one in arguments_of(_RUN)]
add_route(
    routes,
    "/retention/run",
    shaped(_run, "run_retention", f"{summary_of(_RUN)} {_ABOUT}", _RUN_PARAMETERS),
    view_of(RetentionResult),
    problems(409),
    "POST",
)

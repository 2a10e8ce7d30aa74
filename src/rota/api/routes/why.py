"""Explanations of why something does not run, or what happened to it."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.why import WhyView
from rota.api.state import Scoped
from rota.model.why import Kind

routes = router("why")


@routes.get("/why", response_model=WhyView, operation_id="why", responses=problems(404))
async def why(
    scope: Scoped,
    subject: Annotated[
        str,
        Query(min_length=1, max_length=200, description="Run ID, or a name."),
    ],
    kind: Annotated[
        Kind | None,
        Query(
            description="Kind of object. Default: a number is a run; a name is a schedule, else a "
            "job, else a queue."
        ),
    ] = None,
    tenant: Annotated[str, Query(max_length=200, description="Tenant of the schedule.")] = "",
) -> Any:
    """Explain why a run, schedule, job or queue is not running, or what happened to it: the reasons
    in order, in plain words, with the command that would change each.
    """
    return await scope.why(subject, kind=kind, tenant=tenant)

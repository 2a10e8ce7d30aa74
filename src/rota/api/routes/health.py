"""Liveness and readiness. Both need no token, as they reveal nothing else."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import Request
from pydantic import Field

from rota.api.errors import ProblemError
from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.schemas.views import Body, examples
from rota.api.state import RequestScope
from rota.errors import RotaError

routes = router("health")


class Health(Body):
    """Liveness."""

    model_config = examples({"status": "ok"})

    status: Literal["ok"] = Field(description="Always `ok`.")


@routes.get("/health", response_model=Health, operation_id="health")
async def health() -> Any:
    """Liveness check. Does not query the database."""
    return {"status": "ok"}


@routes.get("/ready", response_model=Health, operation_id="ready", responses=problems(503))
async def ready(request: Request) -> Any:
    """Readiness check: the database responds and its schema fits this release."""
    scope = RequestScope(request.app.state.rota, None)
    try:
        await scope.check_ready()
    except (RotaError, TimeoutError):
        raise ProblemError(
            503,
            "not_ready",
            "the database does not respond, or does not fit this release",
            headers={"Retry-After": "5"},
        ) from None
    return {"status": "ok"}

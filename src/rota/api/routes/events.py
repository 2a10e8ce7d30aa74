"""Events of the business: facts that start jobs. The system's own are the stream's."""

from __future__ import annotations

from typing import Any

from rota.api.routing import router
from rota.api.schemas.audit import Emitted, NewEvent
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.state import AtDesk

routes = router("events")


@routes.post(
    "/events",
    response_model=Emitted,
    status_code=201,
    operation_id="emit_event",
    responses=problems(*WITH_BODY),
)
async def emit_event(desk: AtDesk, body: NewEvent) -> Any:
    """Start every job that is bound to the event. A run of a disabled job waits."""
    runs = await desk.events.emit(
        body.event, body.payload, tenant=body.tenant, key=body.key, key_keep=body.key_seconds
    )
    return {
        "runs": [
            {"run_id": run.id, "job": run.job, "is_duplicate": run.is_duplicate} for run in runs
        ]
    }

"""An action on a list of run ids, with an outcome for each run."""

from __future__ import annotations

from typing import Any

from rota.api.routing import router
from rota.api.schemas import bulk as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.state import Scoped

routes = router("runs")
_BATCH: Any = {"response_model": schemas.BulkResultView, "responses": problems(*WITH_BODY)}


@routes.post("/runs/cancel", operation_id="cancel_runs", **_BATCH)
async def cancel_runs(scope: Scoped, body: schemas.BatchRequest) -> Any:
    """Cancel the given runs."""
    return await scope.runs.cancel_many(body.ids, dry_run=body.dry_run, reason=body.reason)


@routes.post("/runs/retry", operation_id="retry_runs", **_BATCH)
async def retry_runs(scope: Scoped, body: schemas.BatchRetrial) -> Any:
    """Retry the given failed or cancelled runs."""
    return await scope.runs.retry_many(
        body.ids,
        payload=body.payload,
        delay=body.delay_seconds,
        dry_run=body.dry_run,
        reason=body.reason,
    )


@routes.post("/runs/delete", operation_id="delete_runs", **_BATCH)
async def delete_runs(scope: Scoped, body: schemas.BatchRequest) -> Any:
    """Delete the given finished runs with their attempts and log lines."""
    return await scope.runs.delete_many(body.ids, dry_run=body.dry_run, reason=body.reason)

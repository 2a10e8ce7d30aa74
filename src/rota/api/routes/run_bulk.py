"""One action on many runs: each is decided for itself, and told in the answer."""

from __future__ import annotations

from typing import Any

from rota.api.routing import router
from rota.api.schemas import bulk as schemas
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.state import AtDesk

routes = router("runs")
_BULK: Any = {"response_model": schemas.BulkResultView, "responses": problems(*WITH_BODY)}


@routes.post("/runs/cancel", operation_id="cancel_runs", **_BULK)
async def cancel_runs(desk: AtDesk, body: schemas.BulkRequest) -> Any:
    """Cancel these runs, or those that fit the filter."""
    return await desk.runs.cancel_many(**_arguments(body))


@routes.post("/runs/retry", operation_id="retry_runs", **_BULK)
async def retry_runs(desk: AtDesk, body: schemas.BulkRetrial) -> Any:
    """Put these failed or cancelled runs back to work, or those that fit the filter."""
    return await desk.runs.retry_many(
        payload=body.payload, delay=body.delay_seconds, **_arguments(body)
    )


@routes.post("/runs/delete", operation_id="delete_runs", **_BULK)
async def delete_runs(desk: AtDesk, body: schemas.BulkRequest) -> Any:
    """Remove these ended runs, or those that fit the filter, with attempts and log lines."""
    return await desk.runs.delete_many(**_arguments(body))


def _arguments(body: schemas.BulkRequest) -> dict[str, Any]:
    filters = body.filter.model_dump(exclude_none=True) if body.filter else {}
    return filters | {
        "ids": body.ids,
        # Whoever names the runs has said how many.
        "limit": body.limit if body.ids is None else schemas.MOST,
        "dry_run": body.dry_run,
        "reason": body.reason,
    }

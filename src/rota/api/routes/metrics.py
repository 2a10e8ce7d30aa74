"""Metrics for Prometheus, of the whole system: scrape any one server."""

from __future__ import annotations

from fastapi import Request, Response

from rota.api.routing import router
from rota.api.schemas.problem import problems
from rota.api.state import Scoped
from rota.telemetry.prometheus import render

routes = router("metrics")


@routes.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    responses={
        200: {
            "description": "Metrics in the Prometheus text format, one per line.",
            "content": {
                "text/plain": {
                    "schema": {"type": "string"},
                    "example": 'rota_queue_runs{queue="mail",state="queued"} 3.0\n',
                }
            },
        },
        **problems(401, 403, 429, 500, 503, 504),
    },
)
async def metrics(scope: Scoped, request: Request) -> Response:
    """All metrics, read from the database at most once per second. Requires the token, unless
    `[server] public_metrics` is set.
    """
    totals = await scope.metrics()
    body, content_type = render(totals, request.headers.get("accept", ""))
    return Response(body, media_type=content_type)

"""Results of a search by name or id."""

from __future__ import annotations

from rota.api.schemas.views import view
from rota.model.hit import Hit

HitView = view(
    Hit,
    "Hit",
    {
        "kind": "run, schedule, job, queue or worker.",
        "name": "Identifier: the ID of a run or worker, otherwise the name.",
        "tenant": "Tenant.",
        "text": "Display text.",
        "detail": "The job of a run or a schedule, the queue of a job, the host of a worker.",
        "state": "Current state.",
    },
    {
        "kind": "run",
        "name": "42",
        "tenant": "",
        "text": "42, key order-17",
        "detail": "send_welcome",
        "state": "succeeded",
    },
)

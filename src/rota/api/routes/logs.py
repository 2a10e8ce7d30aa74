"""Log lines of all runs."""

from __future__ import annotations

from typing import Any

from rota.api.operations import add_route, page_parameters, shaped, summary_of
from rota.api.pages import log_page
from rota.api.routing import router
from rota.api.schemas.runs import LogPage
from rota.api.schemas.values import read_cursor
from rota.api.state import RequestScope
from rota.operations.logs.logs import LogCommands
from rota.operations.reading import plan_behind

routes = router("logs")
_SEARCH = plan_behind(LogCommands.search)


async def _search(scope: RequestScope, limit: int, cursor: str | None, **given: Any) -> Any:
    place = read_cursor("logs", cursor, str)
    found = await scope.logs.search(**given, limit=limit, cursor=place[0] if place else None)
    return log_page("logs", found)


# By hand: a page says how far back it was searched. Requests have a time limit of their own.
_PARAMETERS = [one for one in page_parameters(_SEARCH, 100) if one.name != "patience_seconds"]
add_route(
    routes, "/logs", shaped(_search, "search_logs", summary_of(_SEARCH), _PARAMETERS), LogPage, {}
)

"""Routes of what is only read: the query parameters are the declared arguments of a command."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, get_args, get_origin

from fastapi import APIRouter, Response
from pydantic import TypeAdapter

from rota.api.operations import add_route, query_of, shaped, summary_of, target_of
from rota.api.paths import READS
from rota.api.schemas.views import list_of, view_of
from rota.api.state import RequestScope
from rota.model.fields import arguments_of
from rota.operations.commands import Command
from rota.operations.reading import plan_behind, result_of


def add_read(
    routes: APIRouter,
    path: str,
    operation_id: str,
    commands: str,
    read: Command[Any, Any],
    responses: Any = None,
    *,
    is_large: bool = False,
    leaves_out: Collection[str] = (),
) -> None:
    """Add `GET path`, which returns what a command of `app.<commands>` returns. Arguments that the
    path does not name are query parameters, except those it `leaves_out`. A large answer is
    serialized directly, without validation."""
    plan, result = plan_behind(read), result_of(read)
    READS[commands, plan.__name__] = path

    async def endpoint(scope: RequestScope, **given: Any) -> Any:
        found = await getattr(getattr(scope, commands), plan.__name__)(**given)
        if not is_large:
            return found
        return Response(_codec(result).dump_json(found), media_type="application/json")

    parameters = [
        target_of(one) if f"{{{one.name}" in path else query_of(one)
        for one in arguments_of(plan)
        if one.name not in leaves_out
    ]
    shaped(endpoint, operation_id, summary_of(plan), parameters)
    add_route(routes, path, endpoint, _model(result), responses or {})


@cache
def _codec(result: Any) -> TypeAdapter[Any]:
    return TypeAdapter(result)


def _model(result: Any) -> Any:
    if get_origin(result) is list:
        return list_of(view_of(get_args(result)[0]))
    return view_of(result)

"""Cleanups: list, show, add, remove, count, run."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path

from rota.api.routing import router
from rota.api.schemas import cleanup as schemas
from rota.api.schemas.fleet import Removed
from rota.api.schemas.problem import WITH_BODY, problems
from rota.api.schemas.values import Why
from rota.api.schemas.views import list_of
from rota.api.state import Scoped

routes = router("cleanup")
CleanupName = Annotated[str, Path(min_length=1, max_length=200, description="Cleanup name.")]
RecipeName = Annotated[str, Path(min_length=1, max_length=200, description="Recipe name.")]


@routes.get(
    "/cleanups",
    response_model=list_of(schemas.CleanupView),
    operation_id="list_cleanups",
)
async def list_cleanups(scope: Scoped) -> Any:
    """List cleanups by name: what each deletes, and when."""
    return await scope.cleanup.list()


@routes.post(
    "/cleanups",
    response_model=schemas.CleanupView,
    status_code=201,
    operation_id="add_cleanup",
    responses=problems(409, *WITH_BODY),
)
async def add_cleanup(scope: Scoped, body: schemas.NewCleanup) -> Any:
    """Delete expired rows of a table regularly. Creates a schedule of the job `rota.cleanup`."""
    return await scope.cleanup.add(
        body.table, column=body.column, older_than=body.older_than_seconds, where=body.where,
        name=body.name, cron=body.cron, timezone=body.timezone, description=body.description,
        reason=body.reason,
    )  # fmt: skip


@routes.get(
    "/cleanups/{name}",
    response_model=schemas.CleanupView,
    operation_id="get_cleanup",
    responses=problems(404),
)
async def get_cleanup(scope: Scoped, name: CleanupName) -> Any:
    """Get one cleanup."""
    return await scope.cleanup.get(name)


@routes.delete(
    "/cleanups/{name}",
    response_model=Removed,
    operation_id="remove_cleanup",
    responses=problems(404, 409),
)
async def remove_cleanup(scope: Scoped, name: CleanupName, reason: Why = None) -> Any:
    """Remove a cleanup: nothing more is deleted."""
    await scope.cleanup.remove(name, reason=reason)
    return {"name": name}


@routes.get(
    "/cleanups/{name}/plan",
    response_model=list_of(schemas.CleanupCountView),
    operation_id="plan_cleanup",
    responses=problems(404, 422),
)
async def plan_cleanup(scope: Scoped, name: CleanupName) -> Any:
    """Count the rows that each rule would delete now. Changes nothing."""
    return await scope.cleanup.plan(name)


@routes.post(
    "/cleanups/{name}/run",
    response_model=schemas.CleanupStarted,
    status_code=201,
    operation_id="run_cleanup",
    responses=problems(404, *WITH_BODY),
)
async def run_cleanup(
    scope: Scoped, name: CleanupName, body: schemas.RunCleanup | None = None
) -> Any:
    """Run a cleanup now, on a worker."""
    done = await scope.cleanup.run(name, reason=body.reason if body else None)
    return {"name": done.schedule, "run_id": done.run_id}


@routes.get(
    "/cleanup-recipes",
    response_model=list_of(schemas.RecipeView),
    operation_id="list_cleanup_recipes",
)
async def list_recipes(scope: Scoped) -> Any:
    """List ready-made cleanups for tables that this database has."""
    return await scope.cleanup.recipes()


@routes.post(
    "/cleanup-recipes/{name}",
    response_model=schemas.CleanupView,
    status_code=201,
    operation_id="use_cleanup_recipe",
    responses=problems(404, 409, *WITH_BODY),
)
async def use_recipe(scope: Scoped, name: RecipeName, body: schemas.UseRecipe | None = None) -> Any:
    """Add a ready-made cleanup."""
    given = body or schemas.UseRecipe.model_construct(prefix=None, name=None, reason=None)
    return await scope.cleanup.add_recipe(
        name, prefix=given.prefix, name=given.name, reason=given.reason
    )


@routes.get(
    "/cleanup-tables",
    response_model=list_of(schemas.CleanupTableView),
    operation_id="list_cleanup_tables",
)
async def list_tables(scope: Scoped) -> Any:
    """List tables with a column that holds a time, up to 1000."""
    return await scope.cleanup.tables()

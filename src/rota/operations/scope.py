"""Restricts the commands of a tenant handle to that tenant.

Each group of commands declares which of them take a tenant, which are about a run, and which are
the same for all tenants. Anything else is refused, so that a new command cannot expose another
tenant's data by oversight.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

from rota.errors import FilterError, RunNotFound
from rota.model.run import RunInfo
from rota.postgres.runs.runs import find_run

_EMPTY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Scope:
    """Names of commands: those with an argument `tenant`; those whose first argument is a run, or
    its id; those that restrict themselves to the tenant; and those about shared records."""

    takes: frozenset[str] = _EMPTY
    of_run: frozenset[str] = _EMPTY
    own: frozenset[str] = _EMPTY
    shared: frozenset[str] = _EMPTY

    def keep(
        self,
        name: str,
        plan: Callable[..., Any],
        face: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> Generator[Any, Any, Any]:
        """Return the plan of a command, restricted as if only the tenant's data existed."""
        made: Generator[Any, Any, Any]
        if name in self.takes:
            made = plan(face, *args, **_with(face.tenant, kwargs))
        elif name in self.own or name in self.shared:
            made = plan(face, *args, **kwargs)
        elif name in self.of_run:
            return _of_run(plan, face, args, kwargs)
        else:
            raise FilterError(
                f"{name} is not available per tenant", hint="call it on the application itself"
            )
        return made


def _with(tenant: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    given = kwargs.get("tenant", tenant)
    if given not in (tenant, None, ""):
        raise FilterError(f"this is the handle of tenant {tenant!r}, not {given!r}")
    return {**kwargs, "tenant": tenant}


def _of_run(
    plan: Callable[..., Any], face: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Generator[Any, Any, Any]:
    run = args[0] if args else kwargs.get("run_id", kwargs.get("run"))
    yield from expect_run(run, face.tenant)
    return (yield from plan(face, *args, **kwargs))


def expect_run(run: Any, tenant: str) -> Generator[Any, Any, None]:
    """Raise RunNotFound unless the run is the tenant's; it does not reveal whether another tenant
    has a run with that id."""
    found = run if isinstance(run, RunInfo) else (yield from find_run(int(run)))
    if found.tenant != tenant:
        raise RunNotFound(f"there is no run {found.id}")

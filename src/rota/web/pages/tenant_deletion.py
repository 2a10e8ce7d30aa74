"""The deletion of all data of a tenant: a request deletes for a few seconds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import WrongState
from rota.model.formatting import plural
from rota.model.tenant import TenantAmount
from rota.operations.command_line import line_of
from rota.web.forms import Form, read_form
from rota.web.operations import REASON, Input, OperationPage, path_of
from rota.web.page_scope import PageScope
from rota.web.words import refusal

# The limit of one request; another confirmation follows for what is left.
DELETE_SECONDS = 10.0


async def ask(request: Request) -> Response:
    return await _ask(PageScope(request))


async def _ask(
    scope: PageScope,
    *,
    status: int = 200,
    form: Form | None = None,
    error: str | None = None,
    reason_error: str | None = None,
) -> Response:
    name = (await scope.tenants.get(scope.name())).name
    amount, typed = await scope.tenants.amount(name), dict(form or {})
    path = path_of("tenants", name)
    reason = Input(
        "reason",
        "Reason",
        typed.get("reason", ""),
        "kept in the audit",
        is_required=True,
        error=reason_error,
    )
    page = OperationPage(
        f"Delete all data of tenant {name}",
        f"Delete tenant {name}",
        name,
        action=f"{path}/delete",
        back=path,
        about=_about(amount),
        before="",
        inputs=[*_cancelling(amount, "cancel_running" in typed), reason],
        command=line_of("tenants", "delete", name),
        error=error,
        is_dangerous=True,
    )
    return await scope.show(page, status=status, section="tenants")


def _about(amount: TenantAmount) -> str:
    return (
        f"{plural(amount.schedules, 'schedule')}, "
        f"{plural(amount.open_runs + amount.running, 'open run')} and "
        f"{plural(amount.ended_runs, 'ended run')} with their attempts and log lines are "
        "permanently deleted. Operator actions stay in the audit."
    )


def _cancelling(amount: TenantAmount, is_chosen: bool) -> list[Input]:
    if not amount.running:
        return []
    label = f"First cancel {plural(amount.running, 'running attempt')}"
    hint, value = "The deletion waits until they stop.", "true" if is_chosen else ""
    return [Input("cancel_running", label, value, hint=hint, is_flag=True)]


async def delete(request: Request) -> Response:
    scope = PageScope(request)
    scope.check("tenants.delete")
    form = await read_form(request)
    name, reason = scope.name(), form.text("reason")
    if reason is None:
        return await _ask(scope, status=422, form=form, reason_error=REASON)
    try:
        done = await scope.tenants.delete(
            name, reason, cancel_running="cancel_running" in form, seconds=DELETE_SECONDS
        )
    except WrongState as error:
        return await _ask(scope, status=409, form=form, error=refusal(error))
    path = path_of("tenants", name)
    rows = plural(done.rows, "row")
    if not done.is_done:
        return scope.go(f"{path}/delete", f"{rows} deleted; there are more")
    return scope.go("/tenants", f"Tenant {name} is deleted: {rows}")


routes = [
    Route("/tenants/{name}/delete", ask),
    Route("/tenants/{name}/delete", delete, methods=["POST"]),
]

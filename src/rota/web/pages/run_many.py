"""An action on the selected runs, or on all that match the filter, after a confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import FilterError
from rota.model.bulk import FITTING, Action
from rota.model.run_counts import RunCounts
from rota.web.context import Page
from rota.web.filters.runs import RunQuery
from rota.web.forms import Form, read_form
from rota.web.page_scope import PageScope, zone_of
from rota.web.time_text import plural
from rota.web.words import refusal

MOST_PICKED = 500
# For one run, and for several.
_SAID = {
    "retry": ("run was requeued", "runs were requeued"),
    "cancel": ("run is cancelled", "runs are cancelled"),
    "delete": ("run is deleted", "runs are deleted"),
}


@dataclass(frozen=True, slots=True)
class Picked:
    """The selected runs: those with these ids, or all that match the filter."""

    verb: Action
    ids: tuple[int, ...]
    query: RunQuery

    @classmethod
    def read(cls, given: QueryParams, request: Request) -> Picked:
        verb, ids = given.get("verb", ""), given.getlist("id")
        if verb not in FITTING:
            raise FilterError(f"unknown action {verb!r}", hint=f"choose from {', '.join(FITTING)}")
        query = RunQuery.read(given, zone_of(request)).checked()
        if given.get("all") == "1":
            if not query.narrows:
                raise FilterError("this would select every run", hint="filter the list first")
            return cls(verb, (), query)
        if not ids or len(ids) > MOST_PICKED or not all(_is_id(run_id) for run_id in ids):
            raise FilterError(
                "no runs are selected", hint="select some, or all that match the filter"
            )
        return cls(verb, tuple(map(int, ids)), query)

    @property
    def fields(self) -> list[tuple[str, str]]:
        which = [("id", str(run_id)) for run_id in self.ids] or [("all", "1")]
        return [("verb", self.verb), *which, *self.query.pairs]

    async def count(self, scope: PageScope) -> RunCounts:
        if self.ids:
            return await scope.runs.preview_many(self.verb, self.ids)
        return await scope.bulk.preview(self.verb, **self.query.filters)


@dataclass(frozen=True, slots=True)
class ManyQuestion(Page):
    template: ClassVar[str] = "runs/many.html"
    section: ClassVar[str] = "runs"

    picked: Picked
    found: RunCounts
    has_worker: bool
    given: Form
    wrong: dict[str, str]

    @property
    def title(self) -> str:
        return f"{self.picked.verb.capitalize()} {self.many}"

    @property
    def many(self) -> str:
        """`3 runs`, `10,000 or more runs`."""
        if self.found.is_exact:
            return plural(self.found.runs, "run")
        return f"{self.found.runs:,} or more runs"

    @property
    def unfit(self) -> int:
        """The number of selected runs in another state."""
        return max(0, len(set(self.picked.ids)) - self.found.runs)


async def ask(request: Request) -> Response:
    return await _ask(PageScope(request), Picked.read(request.query_params, request))


async def _ask(
    scope: PageScope, picked: Picked, given: Form | None = None, **wrong: str
) -> Response:
    found = await picked.count(scope)
    workers = await scope.workers.page(status="live", limit=1)
    question = ManyQuestion(picked, found, bool(workers.items), given or Form([]), wrong)
    return await scope.show(question, status=422 if wrong else 200)


async def act(request: Request) -> Response:
    scope, form = PageScope(request), await read_form(request)
    picked = Picked.read(QueryParams(form.pairs), request)
    scope.check(f"runs.{picked.verb}")
    count = form.get("count", "")
    if picked.verb == "delete" and count != "1" and form.text("typed") != count:
        return await _ask(scope, picked, form, typed=f"Type {count} to confirm.")
    if picked.ids:
        return await _act_on_picked(scope, picked, form)
    try:
        rate = None if form.text("rate") is None else float(form["rate"])
        action = await scope.bulk.start(
            picked.verb, rate=rate, reason=form.text("reason"), **picked.query.filters
        )
    except ValueError:
        return await _ask(
            scope, picked, form, rate="Enter a number of runs per second, such as 50."
        )
    except FilterError as error:
        return await _ask(
            scope, picked, form, **{"rate" if error.field == "rate" else "": refusal(error)}
        )
    return scope.go(f"/bulk/{action.id}", f"Bulk action {action.id} is started")


async def _act_on_picked(scope: PageScope, picked: Picked, form: Form) -> Response:
    runs, reason = scope.runs, form.text("reason")
    acts: dict[str, Any] = {
        "retry": runs.retry_many,
        "cancel": runs.cancel_many,
        "delete": runs.delete_many,
    }
    result = await acts[picked.verb](picked.ids, reason=reason)
    text = plural(result.done, *_SAID[picked.verb])
    refused = [item for item in result.items if not item.is_done]
    if refused:
        text += f"; {len(refused)} not: {refused[0].reason}"
    return scope.go(picked.query.path(), text)


def _is_id(text: str) -> bool:
    return text.isdecimal() and len(text) < 19


routes = [
    Route("/runs/selected", ask),
    Route("/runs/selected", act, methods=["POST"]),
]

"""Every declared operation, on every interface: success, bad input, and a target that is not there.

The table is the registry: an operation that is added is called here by itself. What an operation
does is tested where it lives, in tests/operations and tests/conformance.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import shlex
from html import unescape
from typing import Any

import httpx
import pytest

import rota
from rota.errors import InputError, WrongState
from rota.model.fields import Argument, arguments_of
from rota.operations.registry import NOUNS, Interface, Noun, Operation, commands_of, operations_of
from rota.testing import run_due_sync
from tests.cli.conftest import Cli
from tests.operations.sentences import SENTENCES
from tests.web.conftest import Browser

V1 = "/api/v1"
METHODS = {"set": "PATCH", "update": "PATCH", "remove": "DELETE", "delete": "DELETE"}


def _nothing() -> None: ...


def _error_group(app: rota.App) -> str:
    @app.job(max_attempts=1)
    def boom() -> None:
        raise RuntimeError("no")

    boom.enqueue_sync()
    run_due_sync(app)
    return app.errors.sync.list()[0].id


# Makes a target of each noun, and returns what identifies it.
TARGETS: dict[str, Any] = {
    "queues": lambda app: app.queues.sync.set("mail", max_waiting=5).name,
    "errors": _error_group,
    "runs": lambda app: app.job(_nothing).enqueue_sync().id,
    "bulk": lambda app: app.bulk.sync.start("cancel", job="nothing").id,
    "views": lambda app: app.views.sync.save("mail", "state=failed").name,
    "limits": lambda app: app.limits.sync.set("mail", kind="sequence", next_after="success").name,
    "tenants": lambda app: app.tenants.sync.set("acme", weight=3).name,
    "workers": lambda app: _worker(app),
    "calendars": lambda app: app.calendars.sync.create("mail", {"weekends": True}).name,
    "schedules": lambda app: _schedule(app),
    "templates": lambda app: app.templates.sync.set("mail", "@daily").name,
    "jobs": lambda app: _job(app),
    "cleanup": lambda app: _cleanup(app),
    "watches": lambda app: _watch(app),
    "events": lambda app: _event(app),
}
# What an operation needs besides its required arguments.
ALSO = {"events.replay": {"event": "order.*"}}
# Operations whose target must be in a state of its own; the error that they raise in another one.
NEED_A_STATE = {
    "limits.unblock": 409, "runs.delete": 409, "runs.handle": 409, "runs.reopen": 409,
}  # fmt: skip
# What has to be done before an operation changes anything.
BEFORE = {"resume": ("drain", "pause"), "enable": ("disable",), "errors.reopen": ("handle",)}
# Arguments that name what is there, in place of their examples.
THERE: dict[str, Any] = {
    "schedules.create": lambda app: {"job": "clean"},
    "schedules.revert": lambda app: {
        "entry_id": app.schedules.sync.edits("mail").items[0].id,
    },
}  # fmt: skip
# Operations that can be done only once.
ONCE = {"errors.handle", "errors.reopen", "runs.cancel"}
# Operations that take a name that nothing has yet.
TAKE_ANY = ("queues.pause", "queues.set", "tenants.pause", "tenants.set")


def each_of(interface: Interface | None = None) -> pytest.MarkDecorator:
    """All operations, or those that an interface reads."""
    found = [
        pytest.param(commands_of(many).noun, one, id=f"{many}.{one.verb}")
        for many in NOUNS
        for one in operations_of(commands_of(many), interface)
    ]
    return pytest.mark.parametrize(("noun", "operation"), found)


each_operation = each_of()


def _schedule(app: rota.App) -> str:
    app.schedules.sync.create("mail", "clean", cron="@daily")
    return app.schedules.sync.update("mail", description="edited").name


def _worker(app: rota.App) -> int:
    with app.database.connection_sync() as conn:
        row = conn.execute("SELECT rota.register_worker('w', 'h', 1, '', '{}', '{}', 1, 30)")
        found: int = row.fetchone()[0]  # type: ignore[index]
        return found


def _cleanup(app: rota.App) -> str:
    with app.database.connection_sync() as conn:
        conn.execute("CREATE TABLE public.webhook_deliveries (created_at timestamptz)")
        conn.execute("CREATE TABLE public.sessions (expires_at timestamptz)")
    table = "public.webhook_deliveries"
    cleanup = app.cleanup.sync
    return cleanup.add(table, column="created_at", older_than_seconds="7d", name="mail").name


def _event(app: rota.App) -> Any:
    with app.database.connection_sync() as conn:
        conn.execute("INSERT INTO rota.jobs (name) VALUES ('send_receipt')")
    return app.emit_sync("order.paid").event_id


def _watch(app: rota.App) -> int:
    with app.database.connection_sync() as conn:
        conn.execute("CREATE SCHEMA shop; CREATE TABLE shop.orders (id bigint)")
    return app.watches.sync.add("shop.orders", event="made").id


def _job(app: rota.App) -> str:
    with app.database.connection_sync() as conn:
        for name in ("close_orders", "tidy"):
            conn.execute(
                f"CREATE FUNCTION public.{name}(payload jsonb) RETURNS jsonb LANGUAGE sql"
                " AS 'SELECT payload'"
            )
    return app.jobs.sync.create("mail", "public.tidy", description="Tidies.").name


def settings(noun: Noun, operation: Operation) -> dict[str, Any]:
    """What an operation needs, and one of its settings, with their examples."""
    needed = [one for one in operation.inputs if one.is_required]
    found = [one for one in operation.inputs if one.default is ...]
    also = ALSO.get(f"{noun.many}.{operation.verb}", {})
    return {one.name: _example(one) for one in needed + found[:1]} | also


def _example(one: Argument) -> Any:
    return one.words[-1] if one.words else one.field.example


def wrong(operation: Operation) -> Argument | None:
    """An argument for which there is a value that no interface takes."""
    bounded = ("whole", "duration", "moment", "choice", "object")
    return next((one for one in operation.inputs if one.kind in bounded), None)


def expected(noun: Noun, operation: Operation) -> int:
    return NEED_A_STATE.get(f"{noun.many}.{operation.verb}", operation.status)


def nobody(operation: Operation) -> str | int:
    """What identifies no target."""
    return "nobody" if operation.target.kind == "text" else 987654


def request(noun: Noun, operation: Operation, name: str | int) -> tuple[str, str]:
    verb = operation.verb
    if verb == "create" or (operation.creates and not operation.has_target):
        return "POST", f"{V1}/{noun.many}"
    if not operation.has_target:
        return "POST", f"{V1}/{noun.many}/{operation.word}"
    method = "PUT" if operation.creates else METHODS.get(verb, "POST")
    return method, f"{V1}/{noun.many}/{name}" + (f"/{verb}" if method == "POST" else "")


def audited(app: rota.App) -> tuple[str, str | None]:
    """Who did the last thing that is recorded, and why."""
    newest = app.audit.sync.list(limit=1)[0]
    return newest.actor, newest.reason


@pytest.fixture
def target(shop: rota.App, noun: Noun, operation: Operation) -> str | int:
    found: str | int = TARGETS[noun.many](shop)
    commands = getattr(shop, noun.many).sync
    for verb in BEFORE.get(operation.verb, BEFORE.get(f"{noun.many}.{operation.verb}", ())):
        if hasattr(commands, verb):
            getattr(commands, verb)(found)
    return "another" if operation.verb == "create" else found


@pytest.fixture
def given(shop: rota.App, target: str | int, noun: Noun, operation: Operation) -> dict[str, Any]:
    there = THERE.get(f"{noun.many}.{operation.verb}")
    return settings(noun, operation) | (there(shop) if there else {})


@each_operation
def test_it_is_declared_whole(noun: Noun, operation: Operation) -> None:
    assert operation.summary.endswith(".")
    assert operation.may in ("view", "operate", "administer")
    assert operation.target.kind in ("text", "whole")
    assert operation.takes("reason"), "the audit records a reason"
    for one in operation.arguments:
        assert one.field.help.endswith("."), one.name


def test_each_noun_has_a_get() -> None:
    for many in NOUNS:
        commands: Any = commands_of(many)
        assert arguments_of(inspect.unwrap(commands.get.plan))[0].is_required


def said(app: rota.App, noun: Noun, operation: Operation, on: list[Any], result: Any) -> str:
    """What interfaces say behind the name of the target."""
    is_changed = operation.is_changed(result) if operation.is_switch else True
    if operation.shows_target:
        name = (
            on[0] if not operation.renames_to else settings(noun, operation)[operation.renames_to]
        )
        result = noun.record_of(getattr(app, noun.many).sync.get(name))
    elif operation.shown is not None:
        result = operation.shown.of(result)
    return operation.says(result, is_changed, lambda at: "TIME")


@each_operation
def test_python(
    shop: rota.App,
    target: str | int,
    given: dict[str, Any],
    noun: Noun,
    operation: Operation,
) -> None:
    run = getattr(getattr(shop, noun.many).sync, operation.verb)
    on = [target] if operation.has_target else []
    if (one := wrong(operation)) is not None:
        with pytest.raises(noun.error) as caught:
            run(*on, **given | {one.name: "wrong"})
        assert caught.value.field == one.name
    with pytest.raises((TypeError, InputError, noun.error), match="no_such_argument"):
        run(*on, **given, no_such_argument=1)
    if expected(noun, operation) >= 400:
        with pytest.raises(WrongState):
            run(*on, **given)
        return
    told = [said(shop, noun, operation, on, run(*on, **given))]
    if operation.is_switch:
        entries = len(shop.audit.sync.list())
        told.append(said(shop, noun, operation, on, run(*on, **given)))
        assert len(shop.audit.sync.list()) == entries, "what changes nothing is not recorded"
    assert told == SENTENCES[f"{noun.many}.{operation.verb}"]


@each_of("api")
async def test_rest(
    api: httpx.AsyncClient,
    target: str | int,
    given: dict[str, Any],
    noun: Noun,
    operation: Operation,
) -> None:
    method, path = request(noun, operation, target)
    body = given | {"reason": "because"}
    if operation.verb == "create":
        body |= {operation.target.name: target}
    sent = {"params": {"reason": "because"}} if method == "DELETE" else {"json": body}
    if operation.verb == "create":
        body |= {operation.target.name: target}
        sent = {"json": body}
    answer = await api.request(method, path, **sent)
    assert answer.status_code == expected(noun, operation), answer.text
    if (one := wrong(operation)) is not None:
        refused = await api.request(method, path, json=body | {one.name: "wrong"})
        assert (refused.status_code, refused.json()["field"]) == (422, one.name)
    if operation.is_switch:
        again = await api.request(method, path, **sent)
        assert [it.headers["rota-changed"] for it in (answer, again)] == ["true", "false"]
    odd = {"no_such_argument": "1"}
    refused = await api.request(method, path, **{how: given | odd for how, given in sent.items()})
    assert (refused.status_code, refused.json()["field"]) == (422, "no_such_argument")
    takes_any = operation.creates or not operation.has_target
    if f"{noun.many}.{operation.verb}" not in TAKE_ANY and not takes_any:
        _, nowhere = request(noun, operation, nobody(operation))
        assert (await api.request(method, nowhere, **sent)).status_code == 404


@each_of("cli")
def test_command_line(
    cli: Cli,
    shop: rota.App,
    target: str | int,
    given: dict[str, Any],
    noun: Noun,
    operation: Operation,
) -> None:
    flags: list[str] = []
    known = {one.name: one for one in operation.inputs}
    for name, value in given.items():
        text = json.dumps(value) if known[name].kind == "object" else str(value)
        is_flag = known[name] not in operation.positional
        flags += [known[name].flag, text] if is_flag else [text]
    command = [noun.many, operation.word, *([str(target)] if operation.has_target else []), *flags]
    done = cli(*command, "--reason", "because", "--json")
    assert done.code == (0 if expected(noun, operation) < 400 else 1), done.err
    if operation.has_target:
        (told,) = done.json
        assert told["target"] == target
        assert ("error" in told) == (done.code == 1)
    if done.code == 0 and noun.many != "limits":  # its settings are the same as before
        assert audited(shop) == ("cli:alice", "because")
    if (one := wrong(operation)) is not None:
        refused = cli(*command, one.flag, "wrong")
        assert refused.code == 2
        assert one.flag in refused.err


@each_of("web")
async def test_page(
    web: Browser, target: str | int, noun: Noun, operation: Operation, cli: Cli
) -> None:
    place = f"{noun.many}/{target}" if operation.has_target else noun.many
    path = f"/{place}/{operation.word}"
    is_of_one = operation.has_target and not operation.creates and operation.verb != "create"
    if is_of_one and f"{noun.many}.{operation.verb}" not in TAKE_ANY:
        await web.get(f"/{noun.many}/{nobody(operation)}/{operation.word}", 404)
    await web.get(path)
    printed = re.search(r'data-copy="rota ([^"]+)"', web.page)
    assert (printed is None) == bool(operation.positional or not operation.has_target)
    typed = {name: str(value) for name, value in settings(noun, operation).items()}
    if not operation.is_reason_optional:
        await web.post(path, 422, **typed)
        assert "Enter a reason" in web.text
    if (one := wrong(operation)) is not None and one.kind != "choice":
        await web.post(path, 422, **typed | {one.name: "wrong"}, reason="because")
        assert f'id="e-{one.name}"' in web.page
        assert 'value="because"' in web.page, "what was typed stays"
    is_fine = expected(noun, operation) < 400
    if printed is not None:
        done = await asyncio.to_thread(cli, *shlex.split(unescape(printed[1])))
        assert done.code == (0 if is_fine else 1), "a command that is printed runs"
    if not operation.is_removal:
        is_fine = is_fine and f"{noun.many}.{operation.verb}" not in ONCE
        await web.post(path, 200 if is_fine else 422, **typed, reason="because")

"""What people do, declared once: every interface reads these declarations.

    class QueueCommands(Commands):
        noun = Noun("queue", "queues", QueueInfo)

        @operation(says=_paused, asks=_before_pause)
        def pause(self, name: QueueName, *, reason: Reason = None, …) -> Plan[bool]:
            \"\"\"Stop claiming from a queue. Running attempts continue; new runs wait.\"\"\"

An operation is a command whose arguments are fields (`model/fields.py`). They are checked before
its plan begins. The first argument names the target; `tenant`, `reason` and `version` have the
same meaning in all operations. A plan that returns a bool, or a count or None, switches something:
False and None mean that nothing changed, and interfaces show the target afterwards. They also show
it after a plan that returns nothing, unless it removes its target. Otherwise they show what the
plan returns.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from types import NoneType
from typing import Annotated, Any, Concatenate, Literal, ParamSpec, TypeVar, get_args

from rota.errors import InputError, RotaError
from rota.model.fields import UNCHANGED, Argument, Field, Moment, arguments_of
from rota.operations.commands import Command, Commands
from rota.postgres.plans import Plan

P = ParamSpec("P")
T = TypeVar("T")

Permission = Literal["view", "operate", "administer"]
Interface = Literal["api", "cli", "web"]
# How an interface shows a time.
ShowTime = Callable[[datetime], str]
# What an operation did, behind the name of its target: result, whether it changed, times.
Says = Callable[[Any, bool, ShowTime], str]

_REASON = "the mail provider is down"
Reason = Annotated[
    str | None, Field("Reason, recorded in the audit trail.", _REASON, longest=2000, metavar="TEXT")
]
Version = Annotated[
    int | None, Field("Fail unless this is the current version.", least=1, metavar="N")
]
PauseEnd = Annotated[
    Moment | None,
    Field(
        "Resume automatically at this time or after this duration.",
        "2h",
        label="Until",
        none_means="until it is resumed",
        metavar="2h|TIME",
    ),
]
# Arguments that each interface has its own place for.
COMMON = ("tenant", "reason", "version")

# The module and the class of each noun; imported when the noun is used.
NOUNS: dict[str, tuple[str, str]] = {
    "queues": ("rota.operations.queues.queues", "QueueCommands"),
    "limits": ("rota.operations.limits", "LimitCommands"),
    "tenants": ("rota.operations.tenants.tenants", "TenantCommands"),
    "workers": ("rota.operations.workers", "WorkerCommands"),
    "calendars": ("rota.operations.schedules.calendars", "CalendarCommands"),
    "schedules": ("rota.operations.schedules.schedules", "ScheduleCommands"),
    "templates": ("rota.operations.schedules.templates", "TemplateCommands"),
    "runs": ("rota.operations.runs.runs", "RunCommands"),
    "errors": ("rota.operations.runs.error_groups", "ErrorCommands"),
    "bulk": ("rota.operations.runs.bulk_actions", "BulkCommands"),
    "views": ("rota.operations.runs.views", "ViewCommands"),
    "jobs": ("rota.operations.jobs", "JobCommands"),
    "audit": ("rota.operations.reports.audit", "AuditCommands"),
    "cleanup": ("rota.operations.cleanup", "CleanupCommands"),
    "events": ("rota.operations.events", "EventCommands"),
    "watches": ("rota.operations.watches", "WatchCommands"),
}


@dataclass(frozen=True, slots=True)
class Noun:
    """What operations are about: its names, the record that `get` returns (or the field `part` of
    its answer, `one` by default), the error for a value that does not fit, and the field of the
    record that identifies it: a name, or a number. `names` are other names of fields that Python
    callers may use. `home` is the page of its list, if that is not `/queues`."""

    one: str
    many: str
    record: type
    error: type[RotaError] = InputError
    key: str = "name"
    names: Mapping[str, str] = field(default_factory=dict)
    home: str = ""
    part: str = ""

    def record_of(self, details: Any) -> Any:
        is_record = isinstance(details, self.record)
        return details if is_record else getattr(details, self.part or self.one)

    @property
    def code(self) -> str:
        """`bulk_action`, as in the name of an operation."""
        return self.one.replace(" ", "_")

    def key_of(self, record: Any) -> Any:
        return getattr(record, self.key)

    def named(self, key: str | int) -> str:
        """`queue "mail"`, `worker 7`"""
        return f'{self.one} "{key}"' if isinstance(key, str) else f"{self.one} {key}"


@dataclass(frozen=True, slots=True)
class Operation:
    """A declared operation. `asks` says of a target what the operation would mean for it, before
    it is confirmed; it takes the record, or the answer of the command `asks_about`. `creates`: the
    target need not exist. `may_conflict`: it fails in some states of the target. `renames_to`: the
    argument with the name of the target afterwards. Without `has_target`, all of its arguments are
    inputs: it makes something new (`creates`), or acts on many. `code` is its name among all
    operations, if that is not its verb and its noun. Pages ask for a reason unless
    `is_reason_optional`. `result_name` and `example` describe a result that is a plain value.
    `shown` is the record that interfaces show in place of a result that is for Python; its `of`
    makes it. `leads_to` is the field of the result that identifies the record it made.
    `completes` makes the changes of a form that shows every field. `status` is what its route
    answers with. `by_hand` names the interfaces that do it in their own way.
    """

    verb: str
    says: Says
    plan: Callable[..., Any]
    may: Permission = "operate"
    asks: Callable[[Any], str] | None = None
    asks_about: str = "get"
    may_conflict: bool = True
    renames_to: str = ""
    creates: bool = False
    is_dangerous: bool = False
    is_reason_optional: bool = False
    result_name: str = "result"
    example: Any = None
    title: str = ""
    completes: Callable[[dict[str, Any]], dict[str, Any]] | None = None
    status: int = 200
    by_hand: tuple[Interface, ...] = ()
    may_end: bool = False
    has_target: bool = True
    code: str = ""
    shown: Any = None
    leads_to: str = ""

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring; the rest is about Python."""
        return " ".join((inspect.getdoc(self.plan) or "").partition("\n\n")[0].split())

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return arguments_of(self.plan)

    @property
    def target(self) -> Argument:
        return self.arguments[0]

    @property
    def inputs(self) -> tuple[Argument, ...]:
        """Its own arguments: neither the target nor those that all operations have."""
        if not self.has_target:
            return tuple(one for one in self.arguments if one.name not in ("reason", "version"))
        return tuple(one for one in self.arguments[1:] if not _is_common(one))

    @property
    def positional(self) -> tuple[Argument, ...]:
        """What has to be given beside the target, so that there can only be one target."""
        return tuple(one for one in self.inputs if one.is_positional)

    @property
    def is_removal(self) -> bool:
        return self.may_end or self.verb in ("remove", "delete")

    @property
    def word(self) -> str:
        """Its verb in addresses and on the command line."""
        return self.verb.replace("_", "-")

    def name_of(self, noun: Noun) -> str:
        """Its name among all operations: `pause_queue`; `reschedule`, which contains its noun."""
        if self.code:
            return self.code
        return self.verb if self.verb.endswith(noun.one) else f"{self.verb}_{noun.code}"

    @property
    def has_tenant(self) -> bool:
        """Whether its target belongs to a tenant."""
        is_there = any(one.name == "tenant" and _is_common(one) for one in self.arguments)
        return is_there and self.has_target

    def takes(self, name: str) -> bool:
        return any(one.name == name for one in self.arguments)

    @property
    def result(self) -> Any:
        """The type that its plan returns, or that interfaces show of it."""
        if self.shown is not None:
            return self.shown
        hint = inspect.get_annotations(self.plan, eval_str=True)["return"]
        return get_args(hint)[-1]

    @property
    def has_record(self) -> bool:
        """Whether the result is a record, not a plain value."""
        return is_dataclass(self.result)

    @property
    def is_switch(self) -> bool:
        return self.result in (bool, int | None)

    @property
    def has_result(self) -> bool:
        return self.result is not NoneType

    def answer(self, result: Any) -> Any:
        """What interfaces show of a result."""
        return result if self.shown is None else self.shown.of(result)

    def is_changed(self, result: Any) -> bool:
        """Whether a switch changed anything."""
        return result is not None and result is not False

    @property
    def shows_target(self) -> bool:
        """Whether its answer is the target as it is afterwards."""
        return self.is_switch or not (self.has_result or self.is_removal)

    def check(self, noun: Noun, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call, each as the plan takes it. Arguments without a declaration are
        only for Python, and stay as they are."""
        known = {one.name: one for one in self.arguments}
        plain = inspect.signature(self.plan).parameters
        given = arguments
        arguments = by_own_names(noun, given, known)
        odd = [name for name in arguments if name not in known and name not in plain]
        if odd:
            choices = ", ".join(one.name for one in self.arguments if one.is_keyword)
            raise noun.error(
                f"{noun.one}: unknown argument {odd[0]!r}",
                hint=f"choose from {choices}",
                field=odd[0],
            )
        try:
            return {
                name: known[name].read(_selected(noun, known[name], value))
                if name in known
                else value
                for name, value in arguments.items()
            }
        except InputError as error:
            short = (name for name in given if noun.names.get(name) == error.field)
            error.argument = next(short, error.argument)
            raise error.retold(noun.error) from None


def _selected(noun: Noun, argument: Argument, value: Any) -> Any:
    """A selection of fields may have their other names too."""
    if argument.kind != "selection" or isinstance(value, bool | str):
        return value
    return [noun.names.get(one, one) for one in value]


def _is_common(one: Argument) -> bool:
    """A setting of that name belongs to the record: runs of a job have a tenant."""
    return one.name in COMMON and one.default is not UNCHANGED


def by_own_names(noun: Noun, arguments: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
    """The arguments by the names of the fields, if they were given by other names."""
    found: dict[str, Any] = {}
    for given, value in arguments.items():
        name = given if given in known else noun.names.get(given, given)
        if name in found or (name != given and name in arguments):
            raise noun.error(
                f"{given} and {name} are the same argument; pass only one of them", field=name
            )
        found[name] = value
    return found


def operation(
    *, says: Says, **about: Any
) -> Callable[[Callable[Concatenate[Any, P], Plan[T]]], Command[P, T]]:
    """Declare an operation; the keywords are fields of `Operation`."""

    def declare(plan: Callable[Concatenate[Any, P], Plan[T]]) -> Command[P, T]:
        declared = Operation(verb=plan.__name__, says=says, plan=plan, **about)

        def check(commands: Any, given: dict[str, Any]) -> dict[str, Any]:
            return declared.check(commands.noun, given)

        return Command(checked(plan, check), operation=declared)

    return declare


def checked(
    plan: Callable[..., Any], check: Callable[[Any, dict[str, Any]], dict[str, Any]]
) -> Callable[..., Any]:
    """The plan, which begins with arguments that were checked, before anything is sent."""
    signature = inspect.signature(plan)
    names = list(signature.parameters)

    def begin(commands: Any, /, *args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(commands, *args, **kwargs)
        given = dict(zip(names, bound.args, strict=False)) | bound.kwargs
        del given[names[0]]
        return plan(commands, **check(commands, given))

    begin.__name__, begin.__doc__ = plan.__name__, plan.__doc__
    begin.__wrapped__ = plan  # type: ignore[attr-defined]  # for inspect.signature
    return begin


@cache
def commands_of(noun: str) -> type[Commands]:
    module, name = NOUNS[noun]
    found: type[Commands] = getattr(import_module(module), name)
    return found


def operations_of(
    commands: type[Commands], interface: Interface | None = None
) -> Iterator[Operation]:
    """The operations of a noun, in the order in which they are written; those that an interface
    reads."""
    for it in vars(commands).values():
        declared = it.operation if isinstance(it, Command) else None
        if declared is not None and interface not in declared.by_hand:
            yield declared


def plan_of(commands: type[Commands], name: str) -> Callable[..., Any]:
    """The function behind a command such as `list` or `get`."""
    found: Callable[..., Any] = inspect.unwrap(getattr(commands, name).plan)
    return found

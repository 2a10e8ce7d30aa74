"""The jobs that this process has declared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Protocol

from rota.errors import JobError, UnknownJob
from rota.jobs.definition import JobDefinition
from rota.jobs.hooks import Hooks
from rota.postgres.plans import Plan


class Declaration(NamedTuple):
    """A declaration of code: its key, whose last part is the name, and its columns."""

    key: tuple[str, ...]
    value: Any


class Declarations(Protocol):
    """A kind of declarations besides jobs, such as queues. All kinds together form the build of a
    process, and the newest build decides about all of them."""

    noun: str

    def said(self) -> Sequence[Declaration]:
        """Return all declarations of this kind."""

    def put(self, build: str | None, forced: Sequence[str] = ()) -> Plan[int]:
        """Store the declarations, unless a newer build declares them differently; return how many
        were written."""


class Registry:
    """The declared jobs of an application, one per name. Iterates in the order of names."""

    def __init__(self, application: str = "", hooks: Hooks | None = None) -> None:
        self.application = application
        self.hooks = Hooks() if hooks is None else hooks
        self._by_name: dict[str, JobDefinition] = {}
        self._by_alias: dict[str, JobDefinition] = {}
        self._new: dict[str, JobDefinition] = {}
        self._by_schedule: dict[str, JobDefinition] = {}
        self._watchers: list[Callable[[], object]] = []
        self._guards: list[Callable[[JobDefinition], object]] = []
        self.kinds: list[Declarations] = []
        self.build: str | None = None  # the build that was stored last
        # Declarations of app.schedule, by tenant and name: the columns of the schedule.
        self.schedules: dict[tuple[str, str], Mapping[str, Any]] = {}
        self.version = 0  # grows with every declaration
        self._not_before = 0.0

    def add(self, definition: JobDefinition) -> None:
        """Add a job. A second function under its name is an error; the same one, imported again,
        replaces it."""
        known = self._by_name.get(definition.name)
        if known is not None and known.source != definition.source:
            raise JobError(
                f'two functions are declared as job "{definition.name}": '
                f"{known.source} and {definition.source}",
                hint="give one of them another name: @app.job(name=…)",
            )
        self._refuse_taken_alias(definition)
        self._refuse_another_schedule(definition)
        for guard in self._guards:
            guard(definition)
        for name in known.schedule_names if known is not None else ():
            del self._by_schedule[name]
        self._by_schedule |= dict.fromkeys(definition.schedule_names, definition)
        for alias in known.aliases if known is not None else ():
            del self._by_alias[alias]
        self._by_alias |= dict.fromkeys(definition.aliases, definition)
        self._by_name[definition.name] = definition
        self._new[definition.name] = definition
        self._not_before = 0.0
        self.version += 1
        for watcher in list(self._watchers):
            watcher()

    def _refuse_taken_alias(self, definition: JobDefinition) -> None:
        """Require unique names, including aliases."""
        for name in (definition.name, *definition.aliases):
            others = [self._by_alias.get(name)]
            if name != definition.name:
                others.append(self._by_name.get(name))
            for other in others:
                if other is not None and other.name != definition.name:
                    raise JobError(
                        f'two jobs have the name or the alias "{name}": '
                        f"{other.source} and {definition.source}",
                        hint="remove it from the aliases of one of them",
                    )

    def _refuse_another_schedule(self, definition: JobDefinition) -> None:
        """Require unique schedule names: otherwise the order of imports would decide."""
        for name in definition.schedule_names:
            other = self._by_schedule.get(name)
            if other is not None and other.name != definition.name:
                raise JobError(
                    f'two jobs declare a schedule named "{name}": '
                    f"{other.source} and {definition.source}",
                    hint="give one of them another name: rota.every(…, name=…)",
                )

    def declares_schedule(self, name: str) -> JobDefinition | None:
        """Return the job whose decorator declares a schedule of this name."""
        return self._by_schedule.get(name)

    def guard(self, guard: Callable[[JobDefinition], object]) -> None:
        """Call `guard` before each declaration. If it raises, the decorator raises too, and the job
        is not declared."""
        self._guards.append(guard)

    def watch(self, watcher: Callable[[], object]) -> Callable[[], None]:
        """Call `watcher` after each declaration, in the declaring thread; return a function that
        ends this."""
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def get(self, name: str) -> JobDefinition:
        found = self.find(name)
        if found is None:
            near = get_close_matches(name, self._by_name, 1)
            hint = f"did you mean {near[0]}?" if near else None
            raise UnknownJob(f'no job is named "{name}" in this process', hint=hint)
        return found

    def find(self, name: str) -> JobDefinition | None:
        """Find a job by its name or an alias."""
        return self._by_name.get(name) or self._by_alias.get(name)

    def names(self) -> list[str]:
        return sorted(self._by_name)

    def all_names(self) -> list[str]:
        """Return names and aliases, under which the jobs may have runs."""
        return sorted({*self._by_name, *self._by_alias})

    @property
    def has_new(self) -> bool:
        """Whether there are declarations to be stored now."""
        return bool(self._new) and time.monotonic() >= self._not_before

    def postpone(self, seconds: float) -> None:
        """Store new declarations no earlier than so many seconds from now."""
        self._not_before = time.monotonic() + seconds

    def new(self) -> list[JobDefinition]:
        return list(self._new.values())

    def mark_stored(self, definitions: Iterable[JobDefinition], build: str) -> None:
        self.build = build
        for definition in definitions:
            if self._new.get(definition.name) is definition:
                del self._new[definition.name]

    def forget_stored(self) -> None:
        """Mark all jobs as not stored, because the database is another one."""
        self._new = dict(self._by_name)
        self._not_before = 0.0
        self.build = None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name or name in self._by_alias

    def __iter__(self) -> Iterator[JobDefinition]:
        return iter([self._by_name[name] for name in self.names()])

    def __len__(self) -> int:
        return len(self._by_name)

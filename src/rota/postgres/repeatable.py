"""Defines functions, views and triggers from the topic files of `schema/`.

They hold no data, so a release does not number their changes: the step after its last numbered file
defines again the objects that differ from those installed before, by the hashes in
`rota.migrations`. An object keeps its identity if Postgres can replace it. Otherwise (other
parameters, another result) it is dropped and created in the same transaction, with the objects that
depend on it, and all of them get their privileges back.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from rota.errors import SchemaError
from rota.hints import Hint, ShellCommand
from rota.postgres.statements import Statements

Connection = psycopg.Connection[tuple[Any, ...]]

_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|(\$\w*\$).*?\1|;|[^;'$-]+|.", re.DOTALL)
_ABOVE = re.compile(r"(?:\s*--[^\n]*\n|\s+)*")
_CREATE = r"CREATE (?:OR REPLACE )?"
_KINDS = {
    "function": re.compile(rf"{_CREATE}(?:FUNCTION|PROCEDURE|AGGREGATE) rota\.(?P<name>\w+)"),
    "view": re.compile(rf"{_CREATE}VIEW rota\.(?P<name>\w+)"),
    "trigger": re.compile(
        rf"{_CREATE}(?:CONSTRAINT )?TRIGGER (?P<name>\w+) .*? ON rota\.(?P<table>\w+)", re.DOTALL
    ),
}
_ADDED = re.compile(
    r"(?:COMMENT|(?:GRANT|REVOKE) [\w, ]+) ON (?P<kind>FUNCTION|VIEW) rota\.(?P<name>\w+)"
)
_NOT_REPLACEABLE = (
    psycopg.errors.InvalidFunctionDefinition,
    psycopg.errors.InvalidTableDefinition,
    psycopg.errors.WrongObjectType,
)


@dataclass(frozen=True, slots=True)
class Definition:
    key: str  # "function claim_runs", "view runs", "trigger jobs.jobs_after"
    create: str
    added: tuple[str, ...] = ()  # its comments and privileges

    @property
    def is_parsed(self) -> bool:
        """Return whether `pin_functions` stores its parsed body, which refers to the columns of its
        time."""
        head = self.create.partition(" AS $")[0]
        return " LANGUAGE sql" in head.replace("\n", " ") and not re.search(r"\bSET \w", head)

    @property
    def is_constraint(self) -> bool:
        return " CONSTRAINT TRIGGER " in self.create[:40]

    @property
    def replacing(self) -> str:
        if self.is_constraint:  # Postgres cannot replace it
            return self.create
        return re.sub(_CREATE, "CREATE OR REPLACE ", self.create, count=1)

    def hash(self, number: int) -> str:
        """Return a hash of the text; for a parsed body also of the migration's number."""
        parts = [self.create, *self.added, str(number) if self.is_parsed else ""]
        return hashlib.md5("\0".join(parts).encode(), usedforsecurity=False).hexdigest()


def _statements(text: str) -> Iterator[str]:
    start = 0
    for token in _TOKEN.finditer(text):
        if token[0] == ";":
            yield _ABOVE.sub("", text[start : token.start()], count=1)
            start = token.end()


def parse(text: str) -> dict[str, Definition]:
    """Return the definitions of a file, in their order."""
    found: dict[str, Definition] = {}
    for statement in _statements(text):
        if added := _ADDED.match(statement):
            key = f"{added['kind'].lower()} {added['name']}"
            if definition := found.get(key):
                found[key] = Definition(key, definition.create, (*definition.added, statement))
            continue
        for kind, pattern in _KINDS.items():
            if match := pattern.match(statement):
                table = f"{match['table']}." if kind == "trigger" else ""
                key = f"{kind} {table}{match['name']}"
                found[key] = Definition(key, statement)
    return found


class Objects:
    """The functions, views and triggers of one database, inside the transaction of a migration."""

    def __init__(
        self, conn: Connection, schema: str, render: Callable[[str], bytes], number: int
    ) -> None:
        self._conn = conn
        self._statements = Statements(schema)
        self._render = render
        self._number = number
        self._rights = self._present()  # privileges before the migration

    def hashes(self, definitions: Mapping[str, Definition]) -> dict[str, str]:
        return {key: definition.hash(self._number) for key, definition in definitions.items()}

    def define(self, wanted: Mapping[str, Definition], hashes: Mapping[str, str]) -> dict[str, str]:
        """Define the objects that are missing or whose hash differs, in order; return the new
        hashes."""
        self._run("migrate/set", name="check_function_bodies", value="off")
        new, present = self.hashes(wanted), self._present()
        changed = {key for key in wanted if hashes.get(key) != new[key]}
        for key in wanted:
            if key in changed & present.keys() and not self._is_replaceable(wanted[key]):
                self._drop(key)
        present = self._present()
        for key, definition in wanted.items():
            if key in changed or key not in present:
                self._create(definition, is_new=key not in present)
        return new

    def _present(self) -> dict[str, list[str]]:
        return dict(self._run("migrate/objects"))

    def _create(self, definition: Definition, *, is_new: bool) -> None:
        self._conn.execute(self._render(definition.replacing))
        for right in self._rights.get(definition.key, ()) if is_new else ():
            self._conn.execute(right.encode())
        for statement in definition.added:
            self._conn.execute(self._render(statement))

    def _is_replaceable(self, definition: Definition) -> bool:
        """Return whether Postgres can replace the object, by trying it. Other errors are raised
        later, when the objects that it needs exist."""
        kind, name = definition.key.split(" ", 1)
        if kind == "trigger":
            return not definition.is_constraint
        try:
            with self._conn.transaction(force_rollback=True):
                self._conn.execute(self._render(definition.replacing))
                # A function with other parameters is created beside the existing one.
                return sum(not depth for *_, depth, _ in self._dependents(kind, name)) == 1
        except _NOT_REPLACEABLE:
            return False
        except psycopg.Error:
            return True

    def _dependents(self, kind: str, name: str) -> list[tuple[str, str, int, bool]]:
        return self._run("migrate/dependents", kind=kind, name=name).fetchall()

    def _run(self, name: str, /, **params: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self._conn.execute(self._statements.get(name).encode(), params)

    def _drop(self, key: str) -> None:
        found = self._dependents(*key.split(" ", 1))
        others = [user for user, _, _, is_ours in found if not is_ours]
        if others:
            raise SchemaError(
                f"{key} cannot be replaced by this release's, because it is used by "
                + ", ".join(others),
                hint=Hint(
                    "drop what is yours of it, run {}, and create it again",
                    ShellCommand(("migrate",)),
                ),
            )
        for _, command, _, _ in found:
            self._conn.execute(command.encode())

"""The topic files of `postgres/schema` as text: the functions that they define, and who calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rota

PACKAGE = Path(rota.__file__).parent
SCHEMA = PACKAGE / "postgres" / "schema"
REFERENCE = PACKAGE.parents[1] / "docs" / "reference" / "sql.md"

# More callers than this are "many": nobody reads such a list, and every change would touch it.
MOST_CALLERS = 8

_FUNCTION = re.compile(
    r"(?P<above>(?:^--[^\n]*\n)*)^CREATE (?:FUNCTION|AGGREGATE|PROCEDURE) rota\.(?P<name>\w+)\("
    r"(?P<rest>.*?)(?=\n\n|\Z)",
    re.MULTILINE | re.DOTALL,
)
_NAMED = re.compile(r"\brota\.([a-z_]+)\b(?=\s*\(|'::regproc|\))")
_AGGREGATED = re.compile(r"SFUNC = rota\.(\w+)")
_LOCKED = re.compile(r"rota\.(take|try)_lock\('(\w+)'")
_ROWS = re.compile(r"FOR (?:NO KEY )?UPDATE(?: OF \w+)?( SKIP LOCKED)?")


@dataclass(frozen=True)
class Function:
    name: str
    file: str
    above: str  # the comment above it
    text: str  # from CREATE to the triggers, rights and comments that belong to it

    @property
    def is_trigger(self) -> bool:
        return " RETURNS trigger" in self.text


def files() -> list[Path]:
    return sorted(SCHEMA.glob("*.sql"))


def functions(directory: Path = SCHEMA) -> list[Function]:
    found = []
    for path in sorted(directory.glob("*.sql")):
        for match in _FUNCTION.finditer(_without_blank_lines(path.read_text("utf-8"))):
            found.append(Function(match["name"], path.name, match["above"], match[0]))
    return found


def _without_blank_lines(text: str) -> str:
    """An empty line inside a body does not end its function."""
    parts = re.split(r"(\$\$|\$body\$)", text)
    for n in range(2, len(parts), 4):
        parts[n] = parts[n].replace("\n\n", "\n \n")
    return "".join(parts)


# As the program calls a function without a statement file: call("pause_queue", …).
_CALLED = re.compile(r'\bcall(?:ing)?\(\s*"(\w+)"')


def callers(directory: Path = SCHEMA) -> dict[str, list[str]]:
    """Who calls each function: other functions, views and tables by their names, the program's
    statements by their files, and users where the reference tells them about it."""
    found: dict[str, set[str]] = {function.name: set() for function in functions(directory)}
    for caller, text in [*_in_schema(directory), *_in_program()]:
        for name in {*_NAMED.findall(text), *_AGGREGATED.findall(text), *_CALLED.findall(text)}:
            if name in found and name != caller:
                found[name].add(caller)
    for name in re.findall(r"^#+ `rota\.(\w+)`", REFERENCE.read_text("utf-8"), re.MULTILINE):
        if name in found:
            found[name].add("users")
    return {name: sorted(who) for name, who in found.items()}


def _in_schema(directory: Path) -> Iterator[tuple[str, str]]:
    for function in functions(directory):
        yield function.name, _code(function.text.partition(" AS $")[2] or function.text)
    for path in sorted(directory.glob("*.sql")):
        text = _without_blank_lines(path.read_text("utf-8"))
        for match in re.finditer(
            r"^CREATE (?:UNLOGGED )?(?:VIEW|TABLE) rota\.(\w+).*?;$", text, re.M | re.S
        ):
            yield match[1], _code(match[0])


@cache
def _in_program() -> tuple[tuple[str, str], ...]:
    found = []
    for path in sorted([*PACKAGE.rglob("*.sql"), *PACKAGE.rglob("*.py")]):
        place = path.relative_to(PACKAGE)
        if place.parts[:2] not in (("postgres", "schema"), ("postgres", "migrations")):
            label = str(place).removeprefix("postgres/") if path.suffix == ".sql" else str(place)
            found.append(
                (
                    label,
                    _code(path.read_text("utf-8"))
                    if path.suffix == ".sql"
                    else path.read_text("utf-8"),
                )
            )
    return tuple(found)


def _code(text: str) -> str:
    return re.sub(r"--[^\n]*", "", text)


def locks(function: Function) -> list[str]:
    """What a function locks, by its text: rows of rota.locks, and rows of other tables."""
    code = _code(function.text)
    named = [
        f'"{name}"' if how == "take" else f'"{name}" if it is free'
        for how, name in dict.fromkeys(_LOCKED.findall(code))
    ]
    rows = {bool(skips) for skips in _ROWS.findall(code)}
    if True in rows:
        named.append("rows that nobody else has locked")
    if False in rows:
        named.append("rows")
    return named


def reference_lines(function: Function, who: list[str]) -> str:
    """The last lines of a contract: who calls it, and what it locks."""
    lines = []
    if who and not function.is_trigger:
        lines.append("Called by: " + (", ".join(who) if len(who) <= MOST_CALLERS else "many") + ".")
    if held := locks(function):
        lines.append("Locks: " + ", ".join(held) + ".")
    return "\n".join(lines)

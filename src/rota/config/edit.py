"""Writes rota.toml: a template with every setting, or one value, keeping comments."""

from __future__ import annotations

import os
import re
import secrets
import stat
import tomllib
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from textwrap import wrap
from typing import Any

from rota.config.catalogue import SECTIONS, Setting, describe, find_setting, parse_text
from rota.config.load import is_project_file, read_toml
from rota.errors import ConfigError
from rota.extras import needing

with needing("worker", "editing rota.toml"):
    import tomlkit
    from tomlkit import TOMLDocument
    from tomlkit.exceptions import TOMLKitError

INTRODUCTION = """\
# Rota settings, each with its default (or an example, if there is none). To change one, remove
# the "# " before its name. ROTA_ variables and arguments take precedence over this file.
"""


def write_template(path: str | Path) -> None:
    """Write a rota.toml with every key, its default and its range as comments."""
    target = Path(path)
    if target.exists():
        raise ConfigError(f"{target} already exists", hint="remove it, or choose another path")
    _write(target, template())


def template() -> str:
    """Return the text that `write_template` writes."""
    parts = [INTRODUCTION, *(_entry(setting) for setting in describe() if not setting.section)]
    for section, cls in SECTIONS.items():
        parts.append(f"[{section}]\n# {cls.__doc__}\n")
        parts += [_entry(setting) for setting in describe() if setting.section == section]
    return "\n".join(parts)


def set_value(path: str | Path, key: str, given: str) -> Any:
    """Check a value given as text and write it, typed; return the written value."""
    target = Path(path)
    setting = find_setting(key)
    value = parse_text(setting, given, "argument")
    document = _read(target) if target.exists() else tomlkit.document()
    before = tomlkit.dumps(document)
    table: MutableMapping[str, Any] = document
    for name in _tables(target, setting):
        table = _mapping(table.setdefault(name, tomlkit.table()), name, target)
    table[setting.name] = _plain(value)
    after = tomlkit.dumps(document)
    line = f"{setting.name} = {_toml(value)}\n"
    text = _below_its_comment(before, after, target, setting, line)
    _write(target, text, is_private=setting.is_secret)
    return value


def unset_value(path: str | Path, key: str) -> bool:
    """Remove a key, so that its default applies again; return whether it was there."""
    target = Path(path)
    setting = find_setting(key)
    document = _read(target)
    table: MutableMapping[str, Any] = document
    for name in _tables(target, setting):
        table = _mapping(table.get(name, {}), name, target)
    if setting.name not in table:
        return False
    del table[setting.name]
    _write(target, tomlkit.dumps(document))
    return True


def _tables(path: Path, setting: Setting) -> Iterator[str]:
    if is_project_file(path):
        yield from ("tool", "rota")
    if setting.section:
        yield setting.section


def _mapping(item: Any, name: str, path: Path) -> MutableMapping[str, Any]:
    if isinstance(item, MutableMapping):
        return item
    raise ConfigError(f"{name} in {path} is not a table", hint=f"write it as [{name}]")


def _below_its_comment(before: str, after: str, path: Path, setting: Setting, line: str) -> str:
    """Return the edit with the new line below the commented one of the template, if there is one.

    tomlkit puts the line at the end of its table, far from its explanation. Lines are found by
    their text, so the result is only used if it has the same content as tomlkit's.
    """
    wanted, header = ".".join(_tables(path, setting)), ""
    lines = before.splitlines(keepends=True)
    for number, text in enumerate(lines, start=1):
        if match := re.match(r"\[([\w.]+)\]", text):
            header = match[1]
        if header == wanted and text.startswith(f"# {setting.name} = "):
            moved = "".join((*lines[:number], line, *lines[number:]))
            return moved if _means(moved) == _means(after) else after
    return after


def _means(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _entry(setting: Setting) -> str:
    facts = f"({setting.expects}; default {setting.default_text or 'none'}; {setting.env})"
    lines = [*wrap(setting.description, 98), *wrap(facts, 98)]
    lines.append(f"{setting.name} = {_toml(setting.example)}")
    return "".join(f"# {line}\n" for line in lines)


def _toml(value: Any) -> str:
    return str(tomlkit.item(_plain(value)).as_string())


def _plain(value: Any) -> Any:
    """Convert a value to a type of TOML."""
    match value:
        case Path():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value


def _read(path: Path) -> TOMLDocument:
    read_toml(path)  # raises errors with the file and the line
    try:
        return tomlkit.parse(path.read_bytes())
    except TOMLKitError as error:
        raise ConfigError(f"{path} cannot be edited: {error}") from None


def _write(path: Path, text: str, *, is_private: bool = False) -> None:
    """Replace the file in one step: after a crash there is the old one or the new one, never half.
    A new file with a secret is for its owner only."""
    target = path.resolve()  # follow a link to its target
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with open(new, "xb", opener=_private if is_private or target.exists() else None) as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            new.chmod(stat.S_IMODE(target.stat().st_mode))
        new.replace(target)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)

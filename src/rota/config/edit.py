"""Writing rota.toml: a template with every setting, and one value at a time, comments kept."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from textwrap import wrap
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from rota.config.catalogue import SECTIONS, Setting, describe, find_setting, parse_text
from rota.config.load import is_project_file, read_toml
from rota.errors import ConfigError

INTRODUCTION = """\
# Settings of Rota, each with its default (or an example, where there is none): take away the
# "# " before a name to set it. ROTA_ variables and arguments win over this file.
"""


def write_template(path: str | Path) -> None:
    """Write a rota.toml with every key, its default and its range as comments."""
    target = Path(path)
    if target.exists():
        raise ConfigError(f"{target} exists already", hint="remove it, or choose another path")
    _write(target, template())


def template() -> str:
    """The text that `write_template` writes."""
    parts = [INTRODUCTION, *(_entry(setting) for setting in describe() if not setting.section)]
    for section, cls in SECTIONS.items():
        parts.append(f"# {cls.__doc__}\n[{section}]\n")
        parts += [_entry(setting) for setting in describe() if setting.section == section]
    return "\n".join(parts)


def set_value(path: str | Path, key: str, text: str) -> Any:
    """Check a value given as text and write it, typed; returns what was written."""
    target = Path(path)
    setting = find_setting(key)
    value = parse_text(setting, text, "argument")
    document = _read(target) if target.exists() else tomlkit.document()
    table = document
    for name in _tables(target, setting):
        table = table.setdefault(name, tomlkit.table())
    table[setting.name] = _plain(value)
    _write(target, tomlkit.dumps(document))
    return value


def unset_value(path: str | Path, key: str) -> bool:
    """Remove a key, so that its default applies again; returns whether it was there."""
    target = Path(path)
    setting = find_setting(key)
    document = _read(target)
    table: Any = document
    for name in _tables(target, setting):
        table = table.get(name, {})
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


def _entry(setting: Setting) -> str:
    facts = f"({setting.expects}; default {setting.default_text or 'none'}; {setting.env})"
    lines = [*wrap(setting.description, 98), *wrap(facts, 98)]
    example = tomlkit.item(_plain(setting.example)).as_string()
    return "".join(f"# {line}\n" for line in (*lines, f"{setting.name} = {example}"))


def _plain(value: Any) -> Any:
    """A value as TOML can hold it."""
    match value:
        case Path():
            return str(value)
        case tuple():
            return list(value)
        case _:
            return value


def _read(path: Path) -> MutableMapping[str, Any]:
    read_toml(path)  # its errors name the file and the line
    try:
        return tomlkit.parse(path.read_bytes())
    except TOMLKitError as error:
        raise ConfigError(f"{path} cannot be edited: {error}") from None


def _write(path: Path, text: str) -> None:
    """Replace the file in one step: a crash leaves the old one or the new one, never half."""
    target = path.resolve()  # through a link, to the file it stands for
    new = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with new.open("xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            new.chmod(stat.S_IMODE(target.stat().st_mode))
        new.replace(target)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ConfigError(f"cannot write {path}: {error.strerror}") from None

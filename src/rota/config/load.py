"""Merges defaults, a file, the environment and arguments into one frozen `Config`."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Self

from rota.config.catalogue import (
    LIST_HINT,
    SECTIONS,
    check_value,
    describe,
    find_setting,
    nearest,
    parse_text,
)
from rota.config.hooks import Webhook, read_hooks
from rota.config.settings import Settings
from rota.errors import ConfigError, UnknownOption

Source = Literal["default", "file", "environment", "argument"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config(Settings):
    """All settings and the source of each value. Created by `Config.load`, which validates every
    value."""

    file: Path | None = None
    sources: Mapping[str, Source] = field(default_factory=dict, repr=False, compare=False)
    hooks: Mapping[str, Webhook] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def load(
        cls,
        toml_path: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        *,
        unchecked: Mapping[str, Any] | None = None,
        **overrides: Any,
    ) -> Self:
        """Read all sources: defaults < file < ROTA_* variables < arguments.

        Without `toml_path` or ROTA_CONFIG, the file is the nearest one, from the working directory
        upwards. Overrides are `schema="x"`, `worker={"concurrency": 2}` or, from a mapping,
        `**{"worker.concurrency": 2}`; None means not given. `unchecked` sets values outside their
        ranges: it is for tests, which cannot wait for a lease of ten seconds.
        """
        env = os.environ if env is None else env
        path = _given_file(toml_path, env) or _trusted(find_file(Path.cwd()), env)
        values: dict[str, Any] = {}
        sources: dict[str, Source] = {}
        in_file = _tables(path) if path else {}
        given = overrides.pop("hooks", None)
        where = "argument" if given is not None else str(path)
        hooks = read_hooks(in_file.get("hooks", {}) if given is None else given, env, where)
        layers: list[tuple[Source, dict[str, Any]]] = [
            ("file", _from_file(path, in_file) if path else {}),
            ("environment", _from_environment(env)),
            ("argument", _check(overrides, "argument", base=Path.cwd())),
            (
                "argument",
                {find_setting(key).key: value for key, value in (unchecked or {}).items()},
            ),
        ]
        for source, layer in layers:
            values |= layer
            sources |= dict.fromkeys(layer, source)
        return cls(**_by_section(values), file=path, sources=sources, hooks=hooks)

    def override(self, values: Mapping[str, Any]) -> Self:
        """A copy with these values, validated: keys such as `worker.concurrency`."""
        checked = _check(values, "argument", base=Path.cwd())
        present = {setting.key: self.get(setting.key) for setting in describe()}
        sources: dict[str, Source] = {**self.sources, **dict.fromkeys(checked, "argument")}
        sections = _by_section(present | checked)
        return type(self)(**sections, file=self.file, sources=sources, hooks=self.hooks)

    def get(self, key: str) -> Any:
        """The value of a key such as `worker.concurrency`."""
        setting = find_setting(key)
        return getattr(getattr(self, setting.section) if setting.section else self, setting.name)

    def source(self, key: str) -> Source:
        """The source of the value of a key."""
        return self.sources.get(find_setting(key).key, "default")

    def show(self, key: str) -> str:
        """The value of a key as text; secrets are masked."""
        return find_setting(key).show(self.get(key))


def find_file(start: Path) -> Path | None:
    """Return the nearest rota.toml, or pyproject.toml with [tool.rota], from `start` upwards.

    The search ends at the root of the repository: a file above it belongs to another project.
    """
    for directory in (start, *start.parents):
        own, project = directory / "rota.toml", directory / "pyproject.toml"
        if own.is_file():
            return own
        if project.is_file() and project_table(project) is not None:
            return project
        if (directory / ".git").exists():
            return None
    return None


def _trusted(found: Path | None, env: Mapping[str, str]) -> Path | None:
    """Require that a file found by search belongs to the current user or to root and is not
    writable by others: it names the application that is imported, and so runs code."""
    if found is None or not hasattr(os, "geteuid"):
        return found
    info, link = found.stat(), found.lstat()
    owners = {0, os.geteuid()}
    if os.geteuid() == 0 and env.get("SUDO_UID", "").isdecimal():
        owners.add(int(env["SUDO_UID"]))
    hint = f"if you trust it, name it: --config {found}, or ROTA_CONFIG={found}"
    stranger = next((entry.st_uid for entry in (link, info) if entry.st_uid not in owners), None)
    if stranger is not None:
        raise ConfigError(
            f"{found} belongs to user id {stranger}, not to you or root, and is not read",
            hint=hint,
        )
    is_open = info.st_mode & stat.S_IWOTH or (
        info.st_mode & stat.S_IWGRP and info.st_gid not in (0, os.getegid())
    )
    if is_open:
        raise ConfigError(
            f"{found} can be changed by other users, and is not read",
            hint=f"chmod go-w {found}; {hint}",
        )
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file; the error names the file and the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}") from None


def is_project_file(path: Path) -> bool:
    """Return whether the settings are in the [tool.rota] of a file shared with other tools."""
    return path.name == "pyproject.toml"


def project_table(path: Path) -> dict[str, Any] | None:
    """Return the [tool.rota] of a pyproject.toml, if it has one."""
    tools = read_toml(path).get("tool")
    table = tools.get("rota") if isinstance(tools, dict) else None
    return table if isinstance(table, dict) else None


def _given_file(toml_path: str | Path | None, env: Mapping[str, str]) -> Path | None:
    given = toml_path or env.get("ROTA_CONFIG")
    return Path(given).expanduser().absolute() if given else None


def _tables(path: Path) -> dict[str, Any]:
    data = project_table(path) if is_project_file(path) else read_toml(path)
    if data is None:
        raise ConfigError(f"{path} has no [tool.rota] table")
    return data


def _from_file(path: Path, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file, without webhooks, whose names are chosen by users."""
    settings = {name: value for name, value in data.items() if name != "hooks"}
    return _check(settings, str(path), base=path.parent)


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    known = {setting.env: setting for setting in describe()}
    prefixes = tuple(f"ROTA_{section.upper()}_" for section in SECTIONS)
    values: dict[str, Any] = {}
    # An empty variable counts as unset: `${NAME:-}` in a compose file produces it.
    for variable, text in ((name, env[name]) for name in sorted(env) if env[name].strip()):
        where = f"environment variable {variable}"
        if setting := known.get(variable):
            values[setting.key] = _absolute(parse_text(setting, text, where), Path.cwd())
        elif variable.startswith(prefixes):
            near = nearest(variable.removeprefix("ROTA_").lower().replace("_", ".", 1))
            hint = f"did you mean {near.env}?" if near else LIST_HINT
            raise UnknownOption(f"unknown {where}", hint=hint)
    return values


def _check(data: Mapping[str, Any], where: str, base: Path) -> dict[str, Any]:
    return {
        key: _absolute(check_value(find_setting(key, where), value, where), base)
        for key, value in _flatten(data, where)
        if value is not None
    }


def _flatten(data: Mapping[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    """Convert tables to dotted keys."""
    for name, value in data.items():
        is_table = isinstance(value, Mapping)
        if is_table and name not in SECTIONS:
            near = get_close_matches(name, SECTIONS, n=1)
            hint = f"did you mean {near[0]}?" if near else f"sections: {', '.join(SECTIONS)}"
            raise UnknownOption(f"unknown section {name} ({where})", hint=hint)
        if name in SECTIONS and not is_table and value is not None:
            raise ConfigError(f"{name} is a section, not a single value ({where})")
        if is_table:
            yield from ((f"{name}.{key}", inner) for key, inner in value.items())
        else:
            yield name, value


def _absolute(value: Any, base: Path) -> Any:
    """Resolve a relative path against the place where it was written, not where it is read
    later."""
    return base / value.expanduser() if isinstance(value, Path) else value


def _by_section(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert dotted keys to the arguments of Config."""
    top = {key: value for key, value in values.items() if "." not in key}
    for section, cls in SECTIONS.items():
        names = {key: key.removeprefix(f"{section}.") for key in values}
        top[section] = cls(**{name: values[key] for key, name in names.items() if name != key})
    return top

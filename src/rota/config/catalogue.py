"""The settings as a list: their names, accepted values and checks."""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from rota.config.sections.shown import Shown
from rota.config.settings import Settings
from rota.errors import ConfigError, UnknownOption
from rota.hints import Hint, ShellCommand
from rota.model.fields import Field as About

if TYPE_CHECKING:
    from rota.config import Config

# The sections by name: each is a TOML table and an attribute of Config.
SECTIONS: dict[str, type[Any]] = {
    name: hint
    for name, hint in get_type_hints(Settings).items()
    if isinstance(hint, type) and is_dataclass(hint)
}
LIST_HINT = Hint("{} shows all settings", ShellCommand(("config", "list")))
MASK = "***"
TRUE = ("true", "1", "yes", "on")
FALSE = ("false", "0", "no", "off")
TYPE_TEXTS: dict[Any, str] = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting, as `rota config` and the reference page show it."""

    key: str
    type_text: str
    default: Any
    default_text: str
    range_text: str
    description: str
    env: str
    example: Any = None
    is_secret: bool = False
    hint: str | None = None
    kind: Any = field(default=str, repr=False)
    adapter: TypeAdapter[Any] | None = field(default=None, repr=False, compare=False)

    @property
    def section(self) -> str:
        """The TOML table; empty at the top level."""
        return self.key.rpartition(".")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def expects(self) -> str:
        """A description of valid values, to follow "must be" in an error message."""
        if get_origin(self.kind) is Literal:
            return f"one of {self.range_text}"
        if self.kind in (int, float):
            return f"a {self.type_text} from {self.range_text}"
        if self.kind in (bool, str):
            return ": ".join(part for part in (self.type_text, self.range_text) if part)
        return f"a {self.type_text}"

    def show(self, value: Any) -> str:
        """Return a value as text for people; secrets are masked."""
        if value is not None and self.is_secret:
            return MASK
        return value_text(value)


def describe() -> list[Setting]:
    """Return all settings, in the order of the reference page."""
    return list(_catalogue().values())


def find_setting(key: str, where: str = "") -> Setting:
    """Return the setting of that key; the error suggests the nearest one."""
    try:
        return _catalogue()[key]
    except KeyError:
        near = nearest(key)
        hint = f"did you mean {near.key}?" if near else LIST_HINT
        place = f" ({where})" if where else ""
        raise UnknownOption(f"unknown setting {key}{place}", hint=hint) from None


def nearest(key: str) -> Setting | None:
    """Return the setting that was probably meant: similar as a whole, or with the same name in its
    section."""
    catalogue = _catalogue()
    by_name = {setting.name: setting.key for setting in catalogue.values()}
    near = get_close_matches(key, catalogue, n=1, cutoff=0.75)
    near += [by_name[name] for name in get_close_matches(key.rpartition(".")[2], by_name, n=1)]
    return catalogue[near[0]] if near else None


def parse_text(setting: Setting, text: str, where: str) -> Any:
    """Return the value of a text from the environment or the command line."""
    stripped = text.strip()
    value: Any = stripped
    if setting.kind is tuple:
        value = tuple(part.strip() for part in stripped.split(",") if part.strip())
    elif setting.kind is bool:
        value = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}.get(stripped.lower())
    elif get_origin(setting.kind) is Literal:
        value = stripped.lower()
    return _validate(setting, value, text, where, strict=setting.kind is bool)


def check_value(setting: Setting, value: Any, where: str) -> Any:
    """Check a typed value, from a file or an argument: text is not accepted for a number."""
    typed = tuple(value) if isinstance(value, list) else value
    return _validate(setting, typed, value, where, strict=setting.kind is not Path)


def value_text(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case tuple():
            return ", ".join(value)
        case _:
            return str(value)


def _validate(setting: Setting, value: Any, given: Any, where: str, *, strict: bool) -> Any:
    assert setting.adapter is not None
    try:
        # None and empty text are absent values (a path would read "" as the current directory).
        if value not in (None, ""):
            return setting.adapter.validate_python(value, strict=strict)
    except ValidationError:
        pass
    shown = MASK if setting.is_secret else repr(given)
    text = f"{setting.key} must be {setting.expects}, not {shown} ({where})"
    raise ConfigError(text, hint=setting.hint) from None


@cache
def _catalogue() -> dict[str, Setting]:
    return {setting.key: setting for setting in _read(Settings, "")}


def _read(cls: Any, prefix: str) -> Iterator[Setting]:
    hints = get_type_hints(cls, include_extras=True)
    for entry in fields(cls):
        if entry.name in SECTIONS:
            yield from _read(SECTIONS[entry.name], f"{entry.name}.")
        else:
            yield _setting(f"{prefix}{entry.name}", entry, hints[entry.name])


def _setting(key: str, entry: Field[Any], hint: Any) -> Setting:
    annotation, *metadata = get_args(hint)
    info = next(item for item in metadata if isinstance(item, FieldInfo))
    shown = next((item for item in metadata if isinstance(item, Shown)), Shown())
    default = entry.default if entry.default_factory is MISSING else entry.default_factory()
    kind = _kind(annotation)
    return Setting(
        key=key,
        type_text=_type_text(kind, shown),
        default=default,
        default_text=shown.default or value_text(default),
        range_text=shown.range or _range_text(kind, info),
        description=info.description or "",
        env="ROTA_" + key.replace(".", "_").upper(),
        example=(info.examples or [default])[0],
        is_secret=shown.is_secret,
        hint=shown.hint,
        kind=kind,
        adapter=TypeAdapter(hint),
    )


def _kind(annotation: Any) -> Any:
    """Return the type without `| None` and without the item type of a tuple."""
    if get_origin(annotation) in (Union, types.UnionType):
        annotation = next(part for part in get_args(annotation) if part is not type(None))
    return tuple if get_origin(annotation) is tuple else annotation


def _type_text(kind: Any, shown: Shown) -> str:
    if kind is tuple:
        return f"list of {shown.items}"
    return "choice" if get_origin(kind) is Literal else TYPE_TEXTS[kind]


def _range_text(kind: Any, info: FieldInfo) -> str:
    if get_origin(kind) is Literal:
        return ", ".join(get_args(kind))
    least = next((value_text(item.ge) for item in info.metadata if hasattr(item, "ge")), "")
    most = next((value_text(item.le) for item in info.metadata if hasattr(item, "le")), "")
    return f"{least} to {most}" if least and most else ""


@dataclass(frozen=True, slots=True)
class SettingInfo:
    """One setting of this process."""

    key: Annotated[str, About("Name.", "worker.concurrency")]
    value: Annotated[Any, About("Value; secrets are masked.", 16)]
    source: Annotated[
        Literal["default", "file", "environment", "argument"],
        About("Source of the value.", "default"),
    ]
    default: Annotated[Any, About("Default value.", 16)]
    accepts: Annotated[str, About("Allowed values.", "a whole number from 1 to 1024")]
    variable: Annotated[str, About("Its environment variable.", "ROTA_WORKER_CONCURRENCY")]
    description: Annotated[
        str,
        About("What it means.", "Slots: maximum concurrent attempts per worker process."),
    ]


def read_setting(config: Config, key: str) -> SettingInfo:
    setting, value = find_setting(key), config.get(key)
    return SettingInfo(
        key,
        config.show(key) if setting.is_secret and value is not None else value,
        config.source(key),
        setting.default,
        setting.expects,
        setting.env,
        setting.description,
    )

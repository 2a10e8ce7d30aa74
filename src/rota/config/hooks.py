"""Incoming webhooks: `[hooks.NAME]` of the file, their secrets also from the environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rota.errors import ConfigError, UnknownOption
from rota.model.signatures import Scheme, Signed

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_EVENT = re.compile(r"[^\s*]{1,150}")
_SCHEMES = ("stripe", "github", "slack", "hmac")
PREFIX = "ROTA_HOOK_"
DAY = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A webhook: the signature of its sender, and the event that its requests become.

    `event` is the name of the event; `{type}` stands for the sender's event type. `secret` may have
    several values during a change. `key_seconds` is how long a repeated delivery is recognized.
    """

    name: str
    scheme: Scheme
    secret: tuple[str, ...] = field(default=(), repr=False)
    event: str = ""
    tenant: str = ""
    tolerance_seconds: float = 300.0
    key_seconds: float = 3.0 * DAY
    body_bytes: int = 262_144
    header: str = "X-Signature"
    timestamp_header: str | None = None
    delivery_header: str = "X-Delivery-Id"
    type_header: str = "X-Event-Type"

    @property
    def signed(self) -> Signed:
        return Signed(
            self.scheme, self.secret, self.header, self.timestamp_header, self.tolerance_seconds
        )


def read_hooks(data: Any, env: Mapping[str, str], where: str) -> dict[str, Webhook]:
    """Read the webhooks; a ConfigError names the webhook and the problem, never a secret."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"hooks must contain one table per webhook: write [hooks.NAME] ({where})")
    found = {name: _read(name, table, env, where) for name, table in data.items()}
    known = {variable_of(name) for name in found}
    for variable in env:
        if variable.startswith(PREFIX) and variable not in known and env[variable].strip():
            raise UnknownOption(
                f"environment variable {variable} does not belong to a declared webhook",
                hint=f"declare it as [hooks.NAME]; declared: {', '.join(found) or 'none'}",
            )
    return found


def variable_of(name: str) -> str:
    """Return the name of the environment variable of a webhook's secret."""
    return f"{PREFIX}{name.upper().replace('-', '_')}_SECRET"


def _read(name: str, table: Any, env: Mapping[str, str], where: str) -> Webhook:
    place = f"[hooks.{name}] ({where})"
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{place}: a name consists of a-z, 0-9, - and _, and starts with a letter or digit"
        )
    if not isinstance(table, Mapping):
        raise ConfigError(f"{place} must be a table with scheme, secret, event …")
    known = [entry.name for entry in fields(Webhook) if entry.name != "name"]
    for key in table:
        if key not in known:
            raise UnknownOption(
                f"{place}: unknown key {key}", hint=f"choose from {', '.join(known)}"
            )
    given = dict(table) | {"name": name, "secret": _secrets(table.get("secret"), env, name, place)}
    given["event"] = table.get("event") or f"{name}.{{type}}"
    try:
        hook: Webhook = TypeAdapter(Webhook).validate_python(given)
    except ValidationError as error:
        field_name = str(error.errors()[0]["loc"][0])
        hint = f"schemes are {', '.join(_SCHEMES)}" if field_name == "scheme" else None
        raise ConfigError(f"{place}: {field_name} is missing or invalid", hint=hint) from None
    _check(hook, place)
    return hook


def _secrets(given: Any, env: Mapping[str, str], name: str, place: str) -> tuple[str, ...]:
    variable = variable_of(name)
    if text := env.get(variable, "").strip():
        given = [secret.strip() for secret in text.split(",")]
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, list) or not all(isinstance(secret, str) for secret in listed):
        raise ConfigError(f"{place} has no secret", hint=f"set {variable}, or secret in the file")
    if not listed or any(len(secret) < 8 for secret in listed):
        raise ConfigError(f"{place}: a secret must have at least 8 characters")
    return tuple(listed)


def _check(hook: Webhook, place: str) -> None:
    if not _EVENT.fullmatch(hook.event.replace("{type}", "type")):
        raise ConfigError(f"{place}: event must have 1 to 150 characters, without spaces and *")
    if len(hook.tenant) > 200:
        raise ConfigError(f"{place}: tenant must have at most 200 characters")
    for name, least, most in (
        ("tolerance_seconds", 1, DAY),
        ("key_seconds", 1, 3_153_600_000),
        ("body_bytes", 1024, 64 * 1024 * 1024),
    ):
        if not least <= getattr(hook, name) <= most:
            raise ConfigError(f"{place}: {name} must be from {least} to {most}")

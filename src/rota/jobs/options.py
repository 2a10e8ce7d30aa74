"""The options of an enqueue: checked when they are given, compiled once into parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from difflib import get_close_matches
from functools import cached_property
from typing import Any, Literal, TypedDict, get_args

from rota.errors import InputError, UnknownOption
from rota.hints import FIELD
from rota.jobs.encoding import encode_value
from rota.jobs.values import (
    check_backoff,
    check_duration,
    check_number,
    check_tags,
    check_tenant,
    check_text,
    with_short_names,
)
from rota.model.backoff import Backoff
from rota.model.durations import Duration
from rota.model.instants import LONGEST_SECONDS, SUPPORTED, is_instant

OnConflict = Literal["return", "raise", "replace", "debounce", "throttle"]
ON_CONFLICT: tuple[OnConflict, ...] = get_args(OnConflict)
FOREVER = float("inf")
MAX_DELAY = LONGEST_SECONDS


KeyKeep = Duration | Literal["forever"] | None


class RunOptions(TypedDict, total=False):
    """Options of every enqueue, for type checkers."""

    queue: str | None
    priority: int | None
    delay: Duration | None
    run_at: datetime | None
    expires_at: datetime | None
    expires_in: Duration | None
    key: str | None
    key_keep: KeyKeep
    on_conflict: OnConflict | None
    tenant: str | None
    max_attempts: int | None
    timeout: Duration | None
    backoff: Backoff | Mapping[str, Any] | str | None
    tags: Sequence[str] | None
    metadata: Mapping[str, Any] | None


class OptionArguments(RunOptions, total=False):
    """Arguments of `job.options()`."""

    connection: Any


class OptionKeywords(OptionArguments, total=False):
    """`OptionArguments`, also by the names of SQL and the API."""

    delay_seconds: Duration | None
    expires_in_seconds: Duration | None
    key_seconds: KeyKeep
    timeout_seconds: Duration | None


@dataclass(frozen=True)
class Options:
    """Checked options; None means that the job's setting applies. Durations are in seconds.

    `key_keep` is how long the key outlives its run: None, not at all; infinite, for ever. For a
    burst (debounce, throttle) it counts from the first enqueue.
    """

    queue: str | None = None
    priority: int | None = None
    delay: float | None = None
    run_at: datetime | None = None
    expires_at: datetime | None = None
    expires_in: float | None = None
    key: str | None = None
    key_keep: float | None = None
    on_conflict: OnConflict | None = None
    tenant: str | None = None
    max_attempts: int | None = None
    timeout: float | None = None
    backoff: Backoff | None = None
    tags: tuple[str, ...] | None = None
    metadata: Mapping[str, Any] | None = None
    connection: Any = None

    def __post_init__(self) -> None:
        if self.run_at is not None and self.delay is not None:
            raise InputError("run_at and delay cannot be combined", field="run_at")
        if self.expires_at is not None and self.expires_in is not None:
            raise InputError("expires_at and expires_in cannot be combined", field="expires_at")
        if self.on_conflict == "throttle" and self.key_keep is None:
            raise InputError(
                "throttle needs key_keep: the period in which only the first call runs"
            )

    def check_whole(self, *, has_key: bool = False, has_delay: bool = False) -> Options:
        """Raise InputError if an option requires another that neither the options nor the job
        have."""
        for name in ("key_keep", "on_conflict"):
            if getattr(self, name) is not None and self.key is None and not has_key:
                raise InputError(
                    f"{FIELD} needs a key", field=_COLUMNS.get(name, name), argument=name
                )
        if self.on_conflict == "debounce" and self.delay is None and not has_delay:
            raise InputError("debounce needs a delay: how long to wait after the last call")
        return self

    def merge(
        self, given: RunOptions | OptionArguments, default_backoff: Backoff | None = None
    ) -> Options:
        """Return these options with others on top, which are checked first."""
        try:
            named = with_short_names(given, OTHER_NAMES)
        except ValueError as error:
            raise InputError(str(error)) from None
        for name in named:
            _refuse_unknown(name)
        checked = {
            name: _check(name, value, default_backoff)
            for name, value in named.items()
            if value is not None
        }
        return replace(self, **_without_opposites(checked), **checked)

    @cached_property
    def is_default(self) -> bool:
        return self == NO_OPTIONS

    @cached_property
    def is_plain(self) -> bool:
        """Whether only queue, priority and connection are set."""
        own = replace(self, queue=None, priority=None, connection=None)
        return own == NO_OPTIONS

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the SQL function, in types that every driver supports: times and JSON
        are text."""
        return {
            "queue": self.queue,
            "priority": self.priority,
            "run_at": self.run_at.isoformat() if self.run_at else None,
            "delay": self.delay,
            "expires_at": self.expires_at.isoformat() if self.expires_at else None,
            "expires_in": self.expires_in,
            "key": self.key,
            "key_seconds": self.key_keep,
            "on_conflict": self.on_conflict,
            "tenant": self.tenant,
            "max_attempts": self.max_attempts,
            "timeout_seconds": self.timeout,
            "backoff": _json(self.backoff.to_json() if self.backoff else None, "backoff"),
            "tags": list(self.tags) if self.tags is not None else None,
            "metadata": _json(self.metadata, "metadata"),
        }


NO_OPTIONS = Options()
# Names in SQL, the API and the columns.
OTHER_NAMES = {
    "delay_seconds": "delay",
    "expires_in_seconds": "expires_in",
    "key_seconds": "key_keep",
    "timeout_seconds": "timeout",
}
_COLUMNS = {name: column for column, name in OTHER_NAMES.items()}
# Alternatives: the later one counts.
_OPPOSITES = {
    "run_at": "delay",
    "delay": "run_at",
    "expires_at": "expires_in",
    "expires_in": "expires_at",
}
_NAMES = tuple(field.name for field in fields(Options))


def _without_opposites(given: Mapping[str, Any]) -> dict[str, None]:
    return {_OPPOSITES[name]: None for name in given if _OPPOSITES.get(name, name) not in given}


def _refuse_unknown(name: str) -> None:
    if name not in _NAMES:
        near = get_close_matches(name, _NAMES, 1)
        hint = f"did you mean {near[0]}?" if near else f"choose from {', '.join(_NAMES)}"
        raise UnknownOption(f"unknown enqueue option {name}", hint=hint)


def _check(name: str, value: Any, default_backoff: Backoff | None) -> Any:
    try:
        if name == "backoff":
            return check_backoff(value, default_backoff)
        return _CHECKS[name](FIELD, value)
    except (ValueError, InputError) as error:
        raise InputError(error.args[0], field=_COLUMNS.get(name, name), argument=name) from None


def _check_instant(name: str, value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise ValueError(f"{name} must be a datetime with a time zone, not {value!r}")
    if value.utcoffset() is None:
        raise ValueError(
            f"{name} {value.isoformat()} has no time zone; give it one, for example "
            f"{name}.replace(tzinfo=timezone.utc)"
        )
    if not is_instant(value):
        raise ValueError(f"{name} {value.isoformat()} is not in {SUPPORTED}")
    return value


def _check_key_keep(name: str, value: Any) -> float:
    return (
        FOREVER
        if value in ("forever", FOREVER)
        else check_duration(name, value, least=0, most=MAX_DELAY)
    )


def _check_on_conflict(name: str, value: Any) -> Any:
    if value not in ON_CONFLICT:
        raise ValueError(f"{name} must be one of {', '.join(ON_CONFLICT)}, not {value!r}")
    return value


def _check_metadata(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be a mapping, not {value!r}")
    return dict(value)


_CHECKS: dict[str, Any] = {
    "queue": lambda name, value: check_text(name, value, most=100),
    "priority": lambda name, value: check_number(name, value, 0, 9),
    "delay": lambda name, value: check_duration(name, value, 0, MAX_DELAY),
    "run_at": _check_instant,
    "expires_at": _check_instant,
    "expires_in": lambda name, value: check_duration(name, value, most=MAX_DELAY),
    "key": lambda name, value: check_text(name, value, most=400),
    "key_keep": _check_key_keep,
    "on_conflict": _check_on_conflict,
    "tenant": lambda name, value: "" if value == "" else check_tenant(name, value),
    "max_attempts": lambda name, value: check_number(name, value, 1, 100),
    "timeout": check_duration,
    "tags": check_tags,
    "metadata": _check_metadata,
    "connection": lambda name, value: value,
}


def _json(value: Any, what: str) -> str | None:
    return None if value is None else encode_value(value, what).decode()

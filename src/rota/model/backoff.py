"""The time that a run waits before its next attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self, cast, get_args

from rota.model.durations import read_duration

Kind = Literal["exponential", "linear", "fixed"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# No run has this many attempts; the bound limits the cost of a corrupt number.
MAX_ATTEMPT = 10_000

# Names with units in stored data, and short names as Python arguments.
_JSON_NAMES = {
    "kind": "kind",
    "base_seconds": "base",
    "factor": "factor",
    "cap_seconds": "cap",
    "jitter_seconds": "jitter",
}


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait before a retry, as data that can be stored with a job and edited there.

    `exponential` waits base, base·factor, base·factor², …; `linear` base, 2·base, 3·base, …;
    `fixed` always the base. The wait never exceeds the cap; up to `jitter` seconds are added at
    random, so that runs that failed together are not retried together.
    """

    kind: Kind = "exponential"
    base: float = 5.0
    factor: float = 2.0
    cap: float = 300.0
    jitter: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"backoff kind must be one of {', '.join(KINDS)}, not {self.kind!r}")
        for name, least in (("base", 0), ("factor", 1), ("cap", 0), ("jitter", 0)):
            object.__setattr__(self, name, _number(name, getattr(self, name), least))

    def delay(self, attempt: int, random: Callable[[], float]) -> float:
        """Seconds to wait after the given attempt failed; `random` returns a number in [0, 1)."""
        step = min(max(attempt, 1), MAX_ATTEMPT)
        return min(self.cap, self._raw(step)) + self.jitter * random()

    def waits(self, retries: int) -> list[float]:
        """Return the waits before the first retries, without jitter."""
        return [self.delay(attempt, lambda: 0.0) for attempt in range(1, retries + 1)]

    def _raw(self, step: int) -> float:
        match self.kind:
            case "fixed":
                return self.base
            case "linear":
                return self.base * step
            case "exponential":
                return self._power(step - 1)

    def _power(self, exponent: int) -> float:
        if not self.base:
            return 0.0
        try:
            return self.base * self.factor**exponent
        except OverflowError:
            return math.inf

    def to_json(self) -> dict[str, str | float]:
        """The form that is stored in the database."""
        return {stored: getattr(self, name) for stored, name in _JSON_NAMES.items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read the stored form; missing values have their defaults."""
        _refuse_unknown(data, _JSON_NAMES)
        return cls(**{_JSON_NAMES[stored]: value for stored, value in data.items()})

    @classmethod
    def parse(
        cls, value: Backoff | Mapping[str, Any] | str, default: Backoff | None = None
    ) -> Backoff:
        """Read a Backoff, a kind, or a mapping with short or stored names. Missing values come from
        `default`. Callables are not accepted here: the job keeps them."""
        base = default or cls()
        if isinstance(value, Backoff):
            return value
        if isinstance(value, str):
            return replace(base, kind=cast("Kind", value))
        if isinstance(value, Mapping):
            short = {_JSON_NAMES.get(name, name): given for name, given in value.items()}
            _refuse_unknown(short, [field.name for field in fields(cls)])
            return replace(base, **short)
        raise ValueError(
            f"backoff must be a Backoff, one of {', '.join(KINDS)}, or a mapping, not {value!r}"
        )


def _number(name: str, value: Any, least: float) -> float:
    is_duration = name != "factor"
    found = read_duration(value) if is_duration or isinstance(value, int | float) else None
    if found is None or found < least:
        kind = "duration" if is_duration else "number"
        raise ValueError(f"backoff {name} must be a {kind} of at least {least}, not {value!r}")
    return found


def _refuse_unknown(given: Mapping[str, Any], known: Mapping[str, Any] | list[str]) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(
            f"backoff: unknown option {', '.join(unknown)}; choose from {', '.join(known)}"
        )

"""Payloads of other releases: which of them a job's code accepts, and how old ones are upgraded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import msgspec

from rota.errors import PayloadError
from rota.jobs.encoding import encode_value
from rota.jobs.payload import PayloadSchema, stable_hash

Upgrade = Callable[[dict[str, Any]], Mapping[str, Any]]


def intake_of(signature: int, upgrade: Upgrade | None, release: str | None) -> int:
    """Return a number that is equal if the same payloads are accepted. It consists mostly of the
    signature; a release may have changed a validator, which no signature shows."""
    if upgrade is None and release is None:
        return signature
    return stable_hash({"signature": signature, "upgrade": _digest(upgrade), "release": release})


def take(
    schema: PayloadSchema,
    upgrade: Upgrade | None,
    raw: bytes,
    validated_by: int | None,
    *,
    is_newer: bool,
) -> tuple[bytes, dict[str, Any]]:
    """Return the payload as this code accepts it, with its arguments; a PayloadError says why it
    does not.

    A payload that an older signature accepted is upgraded; an unchecked one is upgraded if it does
    not fit. A payload of a newer signature is never upgraded: the function does not support it.
    """
    if upgrade is None or is_newer:
        return raw, schema.decode(raw, False)
    if validated_by is None:
        try:
            return raw, schema.decode(raw, False)
        except PayloadError as error:
            return _upgraded(schema, upgrade, raw, f"{error}; and its upgrade failed too")
    return _upgraded(schema, upgrade, raw, f'job "{schema.job}": the upgrade of its payload failed')


def _upgraded(
    schema: PayloadSchema, upgrade: Upgrade, raw: bytes, problem: str
) -> tuple[bytes, dict[str, Any]]:
    try:
        new = upgrade(msgspec.json.decode(raw))
    except Exception as error:
        raise PayloadError(f"{problem}: {type(error).__name__}: {error}") from error
    if not isinstance(new, Mapping):
        raise PayloadError(f"{problem}: it must return a dict, not {new!r:.60}")
    try:
        payload = encode_value(new, "payload")
        return payload, schema.decode(payload, False)
    except PayloadError as error:
        raise PayloadError(f"{problem}: {error}", hint=error.hint) from None


def _digest(function: Upgrade | None) -> str | None:
    """Return a digest of a function's code, as far as it is accessible."""
    if function is None:
        return None
    code = getattr(function, "__code__", None)
    if code is None:
        return getattr(function, "__qualname__", type(function).__qualname__)
    digest = hashlib.blake2b(digest_size=16)
    _add(digest, code)
    return digest.hexdigest()


def _add(digest: Any, code: CodeType) -> None:
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames)).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _add(digest, constant)
        elif isinstance(constant, frozenset):
            digest.update(repr(sorted(map(repr, constant))).encode())
        else:
            digest.update(repr(constant).encode())

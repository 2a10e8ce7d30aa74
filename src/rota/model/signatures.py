"""Signatures of webhooks, in the formats of common senders. Pure: the caller passes the time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Scheme = Literal["stripe", "github", "slack", "hmac"]
Fault = Literal["no_signature", "bad_signature", "stale"]
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Signed:
    """How a sender signs: its scheme, and for `hmac` the headers that it sends. A signed timestamp
    may be off by this number of seconds."""

    scheme: Scheme
    secrets: Sequence[str]
    header: str = "x-signature"
    timestamp_header: str | None = None
    tolerance_seconds: float = 300.0


def find_fault(signed: Signed, headers: Mapping[str, str], body: bytes, now: float) -> Fault | None:
    """Return None if the signature was made with one of the secrets, and not too long ago. Names of
    headers are in lower case."""
    stamp, given = _read(signed, headers)
    if not given or stamp == "":
        return "no_signature"
    message = _message(signed.scheme, stamp, body)
    # Compare all of them, even after a match, so that the time reveals nothing.
    fits = False
    for secret in signed.secrets:
        made = hmac.new(secret.encode(), message, hashlib.sha256).digest()
        for digest in given:
            fits |= hmac.compare_digest(made, digest)
    if not fits:
        return "bad_signature"
    return None if stamp is None or _is_near(stamp, now, signed.tolerance_seconds) else "stale"


def _read(signed: Signed, headers: Mapping[str, str]) -> tuple[str | None, list[bytes]]:
    """Return the signed time (None if the scheme has none), and the signatures."""
    match signed.scheme:
        case "stripe":
            parts = [part.strip().partition("=") for part in _of(headers, "stripe-signature")]
            stamps = [value for name, _, value in parts if name == "t"]
            made = [value for name, _, value in parts if name == "v1"]
            return (stamps[0] if len(stamps) == 1 else ""), [*_bytes(made)]
        case "github":
            return None, [*_bytes(_after("sha256=", headers.get("x-hub-signature-256", "")))]
        case "slack":
            stamp = headers.get("x-slack-request-timestamp", "")
            return stamp, [*_bytes(_after("v0=", headers.get("x-slack-signature", "")))]
        case "hmac":
            text = headers.get(signed.header.lower(), "").strip()
            given = [*_bytes([text.removeprefix("sha256=")])]
            if signed.timestamp_header is None:
                return None, given
            return headers.get(signed.timestamp_header.lower(), ""), given


def _of(headers: Mapping[str, str], name: str) -> list[str]:
    return headers.get(name, "").split(",")[:20]


def _after(prefix: str, text: str) -> list[str]:
    return [text.removeprefix(prefix)] if text.startswith(prefix) else []


def _bytes(texts: Sequence[str]) -> Iterator[bytes]:
    """Decode digests in hexadecimal or base64. Any other text yields a value that never matches."""
    for text in filter(None, texts):
        try:
            yield bytes.fromhex(text) if len(text) == 64 else base64.b64decode(text, validate=True)
        except (ValueError, binascii.Error):
            yield b""


def _message(scheme: Scheme, stamp: str | None, body: bytes) -> bytes:
    if stamp is None:
        return body
    if scheme == "slack":
        return b"v0:" + stamp.encode() + b":" + body
    return stamp.encode() + b"." + body


def _is_near(stamp: str, now: float, tolerance: float) -> bool:
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > _MOST_DIGITS:
        return False
    return abs(now - int(stamp)) <= tolerance

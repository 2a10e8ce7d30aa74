"""Who looks at a page: whoever has signed in with the token, and is remembered by a cookie.

The cookie is signed with a key that is made from the token, so that another token ends all
sessions, several servers share them, and nothing has to be stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

SESSION = "rota_session"
CSRF = "rota_csrf"
SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    actor: str
    until: float


class Sessions:
    """Makes and reads the cookies of one token. `now` is the server's clock: a session is between
    it and a browser, and the database has no part in it."""

    def __init__(self, token: str, now: Callable[[], float] = time.time) -> None:
        self._token = hashlib.sha256(token.encode()).digest()
        self._key = hmac.digest(token.encode(), b"rota dashboard session", "sha256")
        self._now = now

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(hashlib.sha256(given.strip().encode()).digest(), self._token)

    def begin(self, actor: str) -> str:
        said = json.dumps({"actor": actor, "until": self._now() + SECONDS}).encode()
        return f"{_text(said)}.{_text(self._sign(said))}"

    def read(self, cookie: str) -> Session | None:
        """None for whatever was not made here, or is over."""
        try:
            said, _, signature = cookie.partition(".")
            raw = _bytes(said)
            if not hmac.compare_digest(self._sign(raw), _bytes(signature)):
                return None
            session = Session(**json.loads(raw))
        except (ValueError, TypeError, binascii.Error):
            return None
        return session if session.until > self._now() else None

    def _sign(self, said: bytes) -> bytes:
        return hmac.digest(self._key, said, "sha256")


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def new_csrf() -> str:
    return secrets.token_urlsafe(24)


def mask(token: str) -> str:
    """The token as a page shows it, another way each time. Pages are compressed and may repeat what
    an address says: from their lengths one could guess a text that is always the same."""
    raw = token.encode()
    pad = secrets.token_bytes(len(raw))
    return _text(pad + _mix(pad, raw))


def is_masked(token: str, given: str) -> bool:
    """Whether a form has sent this token."""
    try:
        raw = _bytes(given)
    except ValueError:
        return False
    half = len(raw) // 2
    return hmac.compare_digest(_mix(raw[:half], raw[half:]), token.encode())


def _mix(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def set_cookie(
    response: Response, request: Request, name: str, value: str, *, seconds: int | None = None
) -> None:
    """For this site only, out of reach of scripts, and over TLS where the page came over it."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path=request.scope.get("root_path") or "/",
        secure=request.scope["scheme"] == "https",
        httponly=True,
        samesite="lax",
    )


def delete_cookie(response: Response, request: Request, name: str) -> None:
    set_cookie(response, request, name, "", seconds=0)

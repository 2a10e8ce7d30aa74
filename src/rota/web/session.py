"""Sessions of viewers who signed in with the token, remembered by a cookie.

The cookie is signed with a key that is derived from the token, so that another token ends all
sessions, several servers share them, and nothing has to be stored.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

from itsdangerous import BadData, URLSafeTimedSerializer
from itsdangerous.encoding import base64_decode, base64_encode
from starlette.requests import Request
from starlette.responses import Response

SESSION = "rota_session"
CSRF = "rota_csrf"
SECONDS = 12 * 3600


class Sessions:
    """Creates and reads the cookies of one token."""

    def __init__(self, token: str) -> None:
        self._token = hashlib.sha256(token.encode()).digest()
        self._cookies = URLSafeTimedSerializer(
            token,
            salt="rota dashboard session",
            signer_kwargs={"key_derivation": "hmac", "digest_method": hashlib.sha256},
        )

    def is_token(self, given: str) -> bool:
        return hmac.compare_digest(hashlib.sha256(given.strip().encode()).digest(), self._token)

    def begin(self, actor: str) -> str:
        return str(self._cookies.dumps(actor))

    def read(self, cookie: str) -> str | None:
        """Return the actor; None for a cookie that was not made here, or that has expired."""
        try:
            return str(self._cookies.loads(cookie, max_age=SECONDS))
        except BadData:
            return None


def new_csrf() -> str:
    return secrets.token_urlsafe(24)


def mask(token: str) -> str:
    """Return the token as a page shows it, different each time. Pages are compressed and may repeat
    text of the address: from their lengths an attacker could guess a constant text."""
    raw = token.encode()
    pad = secrets.token_bytes(len(raw))
    return base64_encode(pad + _mix(pad, raw)).decode()


def is_masked(token: str, given: str) -> bool:
    """Return whether a form has sent this token."""
    try:
        raw = base64_decode(given)
    except BadData:
        return False
    half = len(raw) // 2
    return hmac.compare_digest(_mix(raw[:half], raw[half:]), token.encode())


def _mix(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=False))


def set_cookie(
    response: Response, request: Request, name: str, value: str, *, seconds: int | None = None
) -> None:
    """Set it for this site only, hidden from scripts, and for TLS only if the page was served over
    TLS."""
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

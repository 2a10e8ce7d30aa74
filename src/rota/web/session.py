"""Who looks at a page: whoever has signed in with the token, and is remembered by a cookie.

The cookie is signed with a key that is made from the token, so that another token ends all
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
        """The actor; None for a cookie that was not made here, or that has expired."""
        try:
            return str(self._cookies.loads(cookie, max_age=SECONDS))
        except BadData:
            return None


def new_csrf() -> str:
    return secrets.token_urlsafe(24)


def mask(token: str) -> str:
    """The token as a page shows it, another way each time. Pages are compressed and may repeat what
    an address says: from their lengths one could guess a text that is always the same."""
    raw = token.encode()
    pad = secrets.token_bytes(len(raw))
    return base64_encode(pad + _mix(pad, raw)).decode()


def is_masked(token: str, given: str) -> bool:
    """Whether a form has sent this token."""
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

"""Checks secrets where they are set, because a later error message could reveal them."""

from __future__ import annotations

import re

_URL = re.compile(r"postgres(?:ql)?://([^/?]*)([^?]*)")


def database_url(text: str) -> str:
    """Check that libpq can read a URL, and as intended: a password with a raw `@` or `/` ends
    early, and the rest would be looked up as a host, or named in an error as a port."""
    from psycopg import Error, pq

    try:
        if "\0" in text:
            raise ValueError
        found = {part.keyword: part.val for part in pq.Conninfo.parse(text.encode())}
    except (Error, ValueError):
        raise ValueError("libpq cannot read it") from None
    if url := _URL.match(text):
        authority, path = url.groups()
        if authority.count("@") > 1 or "@" in path:
            raise ValueError("an @ that is not percent-encoded")
    if not all(_is_port(part) for part in (found.get(b"port") or b"").split(b",")):
        raise ValueError("a port that is not a number")
    return text


def _is_port(part: bytes) -> bool:
    return not part or (part.isdigit() and 0 < int(part[:6]) < 65_536)


def token(text: str) -> str:
    """Check that an Authorization header can carry the token: spaces at the ends would be
    removed."""
    if text != text.strip() or not text.isprintable():
        raise ValueError("not a single line of visible characters")
    return text

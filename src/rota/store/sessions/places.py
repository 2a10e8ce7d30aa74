"""Which database a URL means, in words that hold no secret."""

from __future__ import annotations

from psycopg import Error, pq

_SHOWN = ("user", "host", "port", "dbname")


def place_of(url: str) -> str:
    """`shop@db.example:5432/shop`; what the URL leaves to libpq is left out."""
    try:
        parsed = pq.Conninfo.parse(url.encode())
    except Error:
        return "?"
    known = {one.keyword.decode(): one.val.decode() for one in parsed if one.val is not None}
    user, host, port, name = (known.get(one, "") for one in _SHOWN)
    where = f"{host}:{port}" if host and port else host or "local"
    return f"{user}{'@' if user else ''}{where}/{name}"

"""Names the database of a URL without secrets."""

from __future__ import annotations

from psycopg import Error, pq

_SHOWN = ("user", "host", "port", "dbname")


def place_of(url: str) -> str:
    """Return for example `shop@db.example:5432/shop`, without the parts that the URL omits."""
    try:
        parsed = pq.Conninfo.parse(url.encode())
    except Error:
        return "?"
    known = {part.keyword.decode(): part.val.decode() for part in parsed if part.val is not None}
    user, host, port, name = (known.get(keyword, "") for keyword in _SHOWN)
    where = f"{host}:{port}" if host and port else host or "local"
    return f"{user}{'@' if user else ''}{where}/{name}"

"""The address of a client, by which rate limits are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

_Address = IPv4Address | IPv6Address
_HEADER = b"x-forwarded-for"
_PROTOCOL = b"x-forwarded-proto"
# One network of that size is one customer's: its addresses are too many to be counted one by one.
_SITE_BITS = 64


class Addresses:
    """The nearest address that is not a trusted proxy's. What anybody else writes into
    X-Forwarded-For is not read: it costs nothing to forge."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = [ip_network(one, strict=False) for one in trusted]

    def of(self, scope: Scope) -> str:
        """The same text for all that counts as one client."""
        client = scope.get("client")
        current = _parse(client[0]) if client else None
        if current is None:
            return ""  # a Unix socket: whoever may open it
        for hop in self._hops(scope):
            if not self._is_trusted(current) or (before := _parse(hop)) is None:
                break
            current = before
        return _site(current)

    def _hops(self, scope: Scope) -> Iterator[str]:
        """The last one first: each proxy writes behind what it was told."""
        if not self._trusted:
            return
        for name, value in reversed(scope["headers"]):
            if name == _HEADER:
                yield from reversed(value.decode("latin-1").split(","))

    def is_secure(self, scope: Scope) -> bool:
        """Whether the client came over TLS, by the word of a trusted proxy."""
        client = scope.get("client")
        peer = _parse(client[0]) if client else None
        if peer is None or not self._is_trusted(peer):
            return False
        said = [value for name, value in scope["headers"] if name == _PROTOCOL]
        return bool(said) and said[-1].rpartition(b",")[2].strip().lower() == b"https"

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


class BehindProxies:
    """Requests that came over TLS to a trusted proxy are such here, too: cookies depend on it."""

    def __init__(self, app: ASGIApp, addresses: Addresses) -> None:
        self._app = app
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._addresses.is_secure(scope):
            scope = {**scope, "scheme": "https"}
        await self._app(scope, receive, send)


def _parse(text: str) -> _Address | None:
    """An address, with or without a port."""
    found = text.strip()
    if found.startswith("["):
        found = found[1:].partition("]")[0]
    elif found.count(":") == 1:
        found = found.partition(":")[0]
    try:
        address = ip_address(found)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _site(address: _Address) -> str:
    if isinstance(address, IPv4Address):
        return str(address)
    return str(IPv6Network((int(address), _SITE_BITS), strict=False))

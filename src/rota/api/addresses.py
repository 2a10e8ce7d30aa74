"""The address of a client, by which rate limits are counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

from starlette.types import ASGIApp, Receive, Scope, Send

_Address = IPv4Address | IPv6Address
_HEADER = b"x-forwarded-for"
_PROTOCOL = b"x-forwarded-proto"
# A network of this size belongs to one customer: it has too many addresses to count them one by
# one.
_SITE_BITS = 64


class Addresses:
    """Finds the nearest address that is not a trusted proxy's. X-Forwarded-For of other senders is
    ignored, because it is easy to forge."""

    def __init__(self, trusted: Sequence[str] = ()) -> None:
        self._trusted = [ip_network(network, strict=False) for network in trusted]

    def of(self, scope: Scope) -> str:
        """Return the same text for all addresses that count as one client."""
        client = scope.get("client")
        current = _parse(client[0]) if client else None
        if current is None:
            return ""  # a Unix socket: its file permissions decide
        for hop in self._hops(scope):
            if not self._is_trusted(current) or (before := _parse(hop)) is None:
                break
            current = before
        return _site(current)

    def _hops(self, scope: Scope) -> Iterator[str]:
        """Yield the last address first: each proxy appends its client."""
        if not self._trusted:
            return
        for name, value in reversed(scope["headers"]):
            if name == _HEADER:
                yield from reversed(value.decode("latin-1").split(","))

    def is_secure(self, scope: Scope) -> bool:
        """Return whether the client used TLS, according to a trusted proxy."""
        client = scope.get("client")
        peer = _parse(client[0]) if client else None
        if peer is None or not self._is_trusted(peer):
            return False
        protocols = [value for name, value in scope["headers"] if name == _PROTOCOL]
        return bool(protocols) and protocols[-1].rpartition(b",")[2].strip().lower() == b"https"

    def _is_trusted(self, address: _Address) -> bool:
        return any(address in network for network in self._trusted)


class BehindProxies:
    """Marks requests that reached a trusted proxy over TLS as secure: cookies depend on it."""

    def __init__(self, app: ASGIApp, addresses: Addresses) -> None:
        self._app = app
        self._addresses = addresses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._addresses.is_secure(scope):
            scope = {**scope, "scheme": "https"}
        await self._app(scope, receive, send)


def _parse(text: str) -> _Address | None:
    """Read an address, with or without a port."""
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

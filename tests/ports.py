"""Ports for the servers and proxies of tests."""

from __future__ import annotations

import random
import socket

# Below what the system gives to outgoing connections: one that is closed for a while stays free.
_FIRST, _LAST = 20_000, 32_000


def free_port() -> int:
    for port in random.sample(range(_FIRST, _LAST), 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no free port between {_FIRST} and {_LAST} on 127.0.0.1")

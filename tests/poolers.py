"""A pooler that takes no settings at the start of a session, as PgBouncer does by default."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_MESSAGE = b"SFATAL\0C08P01\0Munsupported startup parameter: options\0\0"


@contextmanager
def refusing_pooler(url: str) -> Iterator[tuple[str, list[bytes]]]:
    """The URL of a way to the same database, and the first message of every session."""
    known = conninfo_to_dict(url)
    place = str(known["host"]), int(known["port"] or 5432)
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        _start(_accept, listening, place, seen)
        host, port = listening.getsockname()
        yield (
            make_conninfo(url, host=host, port=port, sslmode="disable", gssencmode="disable"),
            seen,
        )
        listening.shutdown(socket.SHUT_RDWR)


def _accept(listening: socket.socket, place: tuple[str, int], seen: list[bytes]) -> None:
    with suppress(OSError):
        while True:
            client, _ = listening.accept()
            _start(_serve, client, place, seen)


def _serve(client: socket.socket, place: tuple[str, int], seen: list[bytes]) -> None:
    with client, suppress(OSError):
        length = struct.unpack("!i", client.recv(4, socket.MSG_PEEK | socket.MSG_WAITALL))[0]
        first = client.recv(length, socket.MSG_WAITALL)
        seen.append(first)
        if b"\0options\0" in first:
            client.sendall(b"E" + struct.pack("!i", len(_MESSAGE) + 4) + _MESSAGE)
            return
        with socket.create_connection(place) as server:
            server.sendall(first)
            _start(_pump, client, server)
            _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def _start(work: object, *arguments: object) -> None:
    threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

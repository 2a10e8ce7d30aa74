"""The messages between a worker and its children: MessagePack after four bytes of length.

Handlers never see them. They are pure data, so that both sides can be read separately.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from rota.engine.executors.location import Location
from rota.model.run import Claim

_LENGTH = 4


class Work(msgspec.Struct, array_like=True, frozen=True):
    """An attempt as it is sent to a child."""

    location: Location
    claim: Claim
    worker: int
    started_at: datetime
    timeout: float | None
    database_url: str
    schema: str
    lease_seconds: float
    result_bytes: int
    context_parameter: str | None = None
    is_validated: bool = False
    trace: dict[str, str] | None = None
    # The level of the worker's root logger, if the handler's log lines are to be stored.
    captured_level: int | None = None

    def __repr__(self) -> str:
        return f"Work(run {self.claim.id}, attempt {self.claim.attempt})"  # the URL is a secret


class Hello(msgspec.Struct, array_like=True, tag="hello"):
    """The first message to every child: where the worker finds its modules, so that the child finds
    them."""

    path: list[str]
    argv: list[str]
    app_ref: str | None


class Begin(msgspec.Struct, array_like=True, tag="begin"):
    call: int
    work: Work


class Interrupt(msgspec.Struct, array_like=True, tag="interrupt"):
    call: int


class Quit(msgspec.Struct, array_like=True, tag="quit"):
    """Exit after the current attempt."""


class ChildLine(msgspec.Struct, array_like=True, tag="log"):
    call: int
    level: str
    message: str
    fields: dict[str, Any]
    # Captured where it was written, so it is printed already.
    is_printed: bool = False


class Progress(msgspec.Struct, array_like=True, tag="progress"):
    call: int
    fraction: float
    message: str | None


class Return(msgspec.Struct, array_like=True, tag="returned"):
    """The handler returned; `is_finished`: its transaction has written the completion too."""

    call: int
    result: bytes | None
    is_finished: bool


class Raise(msgspec.Struct, array_like=True, tag="raised"):
    call: int
    type_name: str
    message: str
    traceback: str
    pickled: bytes | None


ToChild = Hello | Begin | Interrupt | Quit
FromChild = ChildLine | Progress | Return | Raise

# Fields of a log line may contain anything; values that cannot be encoded are sent as their repr.
_encoder = msgspec.msgpack.Encoder(enc_hook=repr)
decode_to_child = msgspec.msgpack.Decoder(ToChild).decode
decode_from_child = msgspec.msgpack.Decoder(FromChild).decode


def frame(message: ToChild | FromChild) -> bytes:
    body = _encoder.encode(message)
    return len(body).to_bytes(_LENGTH) + body


class Frames:
    """Splits a stream of bytes into the frames that were written."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _LENGTH:
            end = _LENGTH + int.from_bytes(buffer[:_LENGTH])
            if len(buffer) < end:
                return
            body = bytes(buffer[_LENGTH:end])
            del buffer[:end]
            yield body

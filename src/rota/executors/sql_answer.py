"""What a SQL function answers: `{"success": boolean, "message": text, "details": anything}`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from rota.executors.remote import RemoteError

_QUOTED = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """`details` and `text` are JSON; `text` is the whole answer."""

    success: bool
    message: str | None = None
    details: str | None = None
    text: str | None = None


class SqlFailure(RemoteError):
    """A failure in the words of the function or the server."""

    def __str__(self) -> str:
        return self.message


class BadAnswer(SqlFailure):
    """The function ended, but did not say how."""

    @classmethod
    def of(cls, what: str, text: str | None) -> BadAnswer:
        came = "NULL" if text is None else text
        quoted = came if len(came) <= _QUOTED else f"{came[:_QUOTED]}…"
        message = f"{what}; it returned {quoted}"
        return cls("BadAnswer", message, message)


def read_answer(text: str | None) -> Answer:
    """Check what came; BadAnswer quotes it."""
    if text is None:
        raise BadAnswer.of("the function must return {success, message, details?}", None)
    found: Any = msgspec.json.decode(text)
    if not isinstance(found, dict):
        raise BadAnswer.of("the function must return an object {success, message, details?}", text)
    for key, kind, name in (("success", bool, "a boolean"), ("message", str, "a text")):
        if key not in found:
            raise BadAnswer.of(f'the answer has no "{key}"', text)
        if not isinstance(found[key], kind):
            raise BadAnswer.of(f'"{key}" must be {name}', text)
    details = found.get("details")
    encoded = None if details is None else msgspec.json.encode(details).decode()
    return Answer(found["success"], found["message"], encoded, text)

"""Text of others on somebody's terminal, made safe in one place.

Names, messages and values come from whoever enqueues, logs or fails. On a terminal they could move
the cursor and write over what stands there, begin a line that looks like one of ours, or turn the
order of letters round. What does such a thing is shown as its code instead: `\\x1b`, `\\u202e`.
"""

from __future__ import annotations

import re

# Control characters with ESC and the C1 set; line and paragraph separators; marks, embeddings,
# overrides and isolates of direction; what is invisible or hides what follows; half characters,
# which no stream can encode. The two joiners (U+200C, U+200D) stay: writing needs them.
_STEERING = (
    "\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff"
)
_IN_LINE = re.compile(f"[\u0000-\u001f{_STEERING}]")
_IN_TEXT = re.compile(f"[\u0000-\u0008\u000b-\u001f{_STEERING}]")
_IN_JSON = re.compile(f"[{_STEERING}]")


def one_line(text: str) -> str:
    """For a name, a value, a cell: a line that stays one."""
    return text if text.isprintable() else _IN_LINE.sub(_code, text)


def lines(text: str) -> str:
    """For a text of several lines, where nobody takes them for something else."""
    return text if text.isprintable() else _IN_TEXT.sub(_code, text)


def entry(text: str, indent: str) -> str:
    """For an entry among others: its further lines are indented, so none looks like an entry."""
    return text if text.isprintable() else lines(text).replace("\n", f"\n{indent}")


def in_json(document: str) -> str:
    """A JSON document that says the same to a program, and nothing to a terminal."""
    return document if document.isascii() else _IN_JSON.sub(_json_code, document)


def _code(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _json_code(found: re.Match[str]) -> str:
    pairs = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))

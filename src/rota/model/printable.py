r"""Makes foreign text safe for a terminal, in one place.

Names, messages and values come from anyone who enqueues, logs or fails. On a terminal they could
move the cursor and overwrite other output, begin a line that looks like one of ours, or reverse the
order of letters. Such characters are shown as their code instead: `\x1b`, `\u202e`.
"""

from __future__ import annotations

import re

# Control characters with ESC and the C1 set; line and paragraph separators; marks, embeddings,
# overrides and isolates of direction; invisible characters, and those that hide what follows; lone
# surrogates, which no stream can encode. The two joiners (U+200C, U+200D) stay: scripts need them.
_STEERING = (
    "\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\ud800-\udfff"
)
_IN_LINE = re.compile(f"[\u0000-\u001f{_STEERING}]")
_IN_TEXT = re.compile(f"[\u0000-\u0008\u000b-\u001f{_STEERING}]")
_IN_JSON = re.compile(f"[{_STEERING}]")


def one_line(text: str) -> str:
    """Return a name, a value or a cell as text that stays on one line."""
    return text if text.isprintable() else _IN_LINE.sub(_code, text)


def lines(text: str) -> str:
    """Return a text of several lines, for a place where they cannot be mistaken for other
    output."""
    return text if text.isprintable() else _IN_TEXT.sub(_code, text)


def entry(text: str, indent: str) -> str:
    """Return an entry of a list: its further lines are indented, so that none looks like an
    entry."""
    return text if text.isprintable() else lines(text).replace("\n", f"\n{indent}")


def in_json(document: str) -> str:
    """Return a JSON document with the same meaning to a program, but harmless to a terminal."""
    return document if document.isascii() else _IN_JSON.sub(_json_code, document)


def _code(found: re.Match[str]) -> str:
    return ascii(found[0])[1:-1]


def _json_code(found: re.Match[str]) -> str:
    pairs = found[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{pairs[at : at + 4]}" for at in range(0, len(pairs), 4))

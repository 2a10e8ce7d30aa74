"""What people type into a filter: `job:send_mail -state:failed "order 98" refund`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_LONGEST_TEXT = 1000
# `not` only leaves out a named filter: before other words it is a word.
_WORD = re.compile(
    r"""(?<!\S)(?:
        (?P<no>-|not\s+)?(?P<name>[a-z_]+):(?!//)(?P<value>"[^"]*"?|\S*)
        | (?P<minus>-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>\S+)))""",
    re.VERBOSE,
)


class Word(NamedTuple):
    """A word with the name before its colon; the name of a bare word is empty. `typed` is how it
    was written."""

    name: str
    value: str
    is_not: bool
    typed: str


def read_words(text: str) -> Iterator[Word]:
    for found in _WORD.finditer(text[:_LONGEST_TEXT].replace("\0", " ")):
        if found["name"] is not None:
            yield Word(found["name"], found["value"].strip('"'), bool(found["no"]), found[0])
        elif value := (found["word"] if found["phrase"] is None else found["phrase"]).strip():
            yield Word("", value, bool(found["minus"]), found[0])


def written(name: str, value: str, *, is_not: bool = False) -> str:
    """A filter as one would type it."""
    shown = f'"{value}"' if not value or any(one.isspace() for one in value) else value
    return f"{'-' if is_not else ''}{name}:{shown}"

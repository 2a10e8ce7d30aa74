"""The typed text of a search: `timeout "order 17" -retry user:7`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TERM = re.compile(
    r"""(?P<no>-)?
        (?:(?P<field>[\w.-]+):(?=\S))?
        (?:"(?P<phrase>[^"]*)"?|(?P<word>\S+))""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class LogText:
    """Words and phrases that a line must have, those it must not have, and fields by their value.

    A phrase that ends in `*` is a prefix. Fields are compared as text: `user:7` finds 7 and "7".
    """

    wanted: tuple[str, ...] = ()
    unwanted: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    other_fields: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> LogText:
        """Parse the terms; all must hold, and `-` negates one."""
        wanted: list[str] = []
        unwanted: list[str] = []
        fields: list[tuple[str, str]] = []
        others: list[tuple[str, str]] = []
        for term in _TERM.finditer(text.replace("\0", " ")):
            value = term["phrase"] if term["word"] is None else term["word"]
            if term["field"]:
                (others if term["no"] else fields).append((term["field"], value))
            elif value.strip():
                (unwanted if term["no"] else wanted).append(value)
        return cls(tuple(wanted), tuple(unwanted), tuple(fields), tuple(others))

    @property
    def is_empty(self) -> bool:
        return not (self.wanted or self.unwanted or self.fields or self.other_fields)

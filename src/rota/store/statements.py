"""SQL lives in files, one statement each, that read as they are in psql.

The files name the schema `rota`. An installation under another name gets the same text with
that one qualifier exchanged; a test runs the engine under another name to hold this.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_QUALIFIER = re.compile(r"\brota\.(?=[a-z_%])")


def render(text: str, schema: str) -> str:
    """The text for an installation whose schema has this name."""
    return text if schema == "rota" else _QUALIFIER.sub(f'"{schema}".', text)


@cache
def _read(name: str) -> str:
    return files("rota.store").joinpath("sql", f"{name}.sql").read_text("utf-8")


class Statements:
    """All statements, for one schema."""

    def __init__(self, schema: str) -> None:
        self.schema = schema
        self._rendered: dict[str, str] = {}

    def get(self, name: str) -> str:
        """The statement of a file such as `runs/claim`."""
        text = self._rendered.get(name)
        if text is None:
            text = self._rendered[name] = render(_read(name), self.schema)
        return text

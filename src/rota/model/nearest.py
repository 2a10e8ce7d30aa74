"""Advice for a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from rota.hints import Hint, OperationCall


def nearest(name: str, known: Iterable[str], otherwise: Hint | str) -> Hint | str:
    """Suggest a similar name; without one, say where existing ones are listed."""
    near = get_close_matches(name, list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise


def listed(noun: str) -> Hint:
    return Hint("{} lists them", OperationCall(noun, "list"))

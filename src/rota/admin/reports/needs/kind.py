"""What every kind has."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rota.model.attention import Need
from rota.store.plans import Plan


class Found(NamedTuple):
    """The first few, and how many there are in all."""

    needs: list[Need]
    total: int


@dataclass(frozen=True, slots=True)
class Kind:
    """`find` gets how many to put into words."""

    name: str
    subject: str
    state: str
    find: Callable[[int], Plan[Found]]


def command(*words: str, tenant: str = "") -> str:
    """What one types; names are whatever people wrote."""
    given = [*words, "--tenant", tenant] if tenant else words
    return shlex.join(("rota", *given))


def nothing() -> Found:
    return Found([], 0)

"""The shapes under trial, each a value: what differs between two of them is what was measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Variant:
    """One data shape with one way to claim from it."""

    name: str
    # a: one table updated in place; b: hot table + history; c: b + attempt row at claim;
    # d: b whose claim touches no indexed column, so that it can be a HOT update
    shape: Literal["a", "b", "c", "d"]
    fillfactor: int = 100
    has_worker_index: bool = True
    is_pinned: bool = True  # plpgsql function with its plan pinned, else a prepared statement
    is_generic: bool = True  # and told never to plan again for the values of one call
    # How the rows picked or named are reached: "join" leaves the planner an order to choose,
    # "any" (id = ANY (array)) and "ctid" leave it none
    claim_by: Literal["join", "any", "ctid"] = "any"
    finish_by: Literal["join", "any", "ctid"] = "any"
    has_lanes: bool = True  # ten priorities probed in one statement, else one priority
    has_attempt_row: bool = False  # the last attempt as a row of its own, written at finish
    has_hint: bool = True
    is_generated: bool = False  # d: is_ready and is_future computed from the state by the table

    @property
    def schema(self) -> str:
        return "s_" + self.name.replace("-", "_").replace(" ", "_").replace("+", "_")


A = Variant("a", "a")
B = Variant("b", "b")
C = Variant("c", "c")
D = Variant("d", "d", fillfactor=50, has_worker_index=False)

SHAPES = [A, B, C, D]

FILL = [
    *(replace(B, name=f"b ff{n} windex", fillfactor=n) for n in (100, 70, 50)),
    *(
        replace(B, name=f"b ff{n} nowindex", fillfactor=n, has_worker_index=False)
        for n in (100, 70, 50)
    ),
    *(replace(D, name=f"d ff{n}", fillfactor=n) for n in (100, 70, 50, 40)),
    replace(D, name="d ff50 generated", is_generated=True),
]


def _forms(v: Variant) -> list[Variant]:
    return [
        replace(v, name=f"{v.name} plain join", is_pinned=False, claim_by="join", finish_by="join"),
        replace(v, name=f"{v.name} plain any", is_pinned=False),
        replace(v, name=f"{v.name} pinned join", claim_by="join", finish_by="join"),
        replace(v, name=f"{v.name} pinned any replanned", is_generic=False),
        replace(v, name=f"{v.name} pinned any"),
        replace(v, name=f"{v.name} pinned ctid", claim_by="ctid"),
        replace(v, name=f"{v.name} pinned ctid both", claim_by="ctid", finish_by="ctid"),
        replace(v, name=f"{v.name} pinned any onelane", has_lanes=False),
    ]


FORMS = [*_forms(B), *_forms(D)]
STATISTICS = [v for v in _forms(B) if v.has_lanes and v.is_generic]

ATTEMPTS = [
    *(replace(v, name=f"{v.name} in run row") for v in (B, D)),
    *(replace(v, name=f"{v.name} own row", has_attempt_row=True) for v in (B, D)),
]

HINTS = [
    *(replace(v, name=f"{v.name} hint") for v in SHAPES),
    *(replace(v, name=f"{v.name} nohint", has_hint=False) for v in SHAPES),
]

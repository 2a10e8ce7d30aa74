"""Sets of states are spelled out in one place."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import rota
from rota.model import states

ROOT = Path(rota.__file__).parent
SETS = {
    frozenset(one)
    for one in (
        states.OPEN_STATES,
        states.END_STATES,
        states.RUN_STATES,
        states.RETRIABLE_STATES,
        states.FAILED_ATTEMPT_STATES,
        get_args(states.AttemptState),
    )
}
# Types of the values of a field, which are narrower than the sets and happen to agree with one.
ALLOWED = {"model/states.py", "model/outcome.py"}


def spelled_out(source: str) -> list[int]:
    """The lines on which a tuple, list or set has just the members of one of the sets."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Tuple | ast.List | ast.Set)
        and all(isinstance(it, ast.Constant) for it in node.elts)
        and frozenset(it.value for it in node.elts if isinstance(it, ast.Constant)) in SETS
    ]


def test_no_other_module_spells_out_a_set_of_states() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted(ROOT.rglob("*.py"))
        if path.relative_to(ROOT).as_posix() not in ALLOWED
        for line in spelled_out(path.read_text("utf-8"))
    ]
    assert not found, "take it from model/states.py"


def test_the_check_finds_sets_in_any_order_and_form() -> None:
    sample = (
        'a = ("running", "queued", "scheduled", "blocked")\n'
        'b: Literal["succeeded", "failed", "cancelled"]\n'
        'c = frozenset({"cancelled", "failed"})\n'
        'd = ("queued", "running")\n'
    )
    assert spelled_out(sample) == [1, 2, 3]


def test_open_and_ended_are_all_states() -> None:
    assert {*states.OPEN_STATES, *states.END_STATES} == {*states.RUN_STATES}
    assert not {*states.OPEN_STATES} & {*states.END_STATES}

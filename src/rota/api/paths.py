"""The method and the path of operations and reads."""

from __future__ import annotations

from typing import Any

from rota.model.fields import arguments_of
from rota.operations.registry import Noun, Operation

_METHODS = {"set": "PATCH", "update": "PATCH", "remove": "DELETE", "delete": "DELETE"}
# The paths of reads, by noun and verb; those of lists and records follow from the noun.
READS: dict[tuple[str, str], str] = {}


def address(noun: Noun, operation: Operation) -> tuple[str, str]:
    if is_creation(operation):
        return "POST", f"/{noun.many}"
    if not operation.has_target:
        return "POST", f"/{noun.many}/{operation.word}"
    method = "PUT" if operation.creates else _METHODS.get(operation.verb, "POST")
    return method, path_of(noun, operation.plan) + (
        f"/{operation.word}" if method == "POST" else ""
    )


def is_creation(operation: Operation) -> bool:
    """Whether it makes something whose name is in the body, or follows from it."""
    return operation.verb == "create" or (operation.creates and not operation.has_target)


def path_of(noun: Noun, plan: Any) -> str:
    target = arguments_of(plan)[0]
    kind = ":int" if target.kind == "whole" else ""
    return f"/{noun.many}/{{{target.name}{kind}}}"

"""Plans of the statements inside functions, as the server writes them down itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg

Node = dict[str, Any]


@dataclass
class Watch:
    """What auto_explain said about the statements of one connection."""

    conn: psycopg.Connection[Any]
    plans: list[Node] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.conn.execute("LOAD 'auto_explain'")
        for name, value in {
            "log_min_duration": "0",
            "log_nested_statements": "on",
            "log_format": "json",
            "log_analyze": "on",
            "log_timing": "off",
        }.items():
            self.conn.execute(f"SET auto_explain.{name} = {value}".encode())
        self.conn.execute("SET client_min_messages = log")
        self.conn.add_notice_handler(self._hear)

    def _hear(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        message = diagnostic.message_primary or ""
        found = re.search(r"plan:\n(\{.*\})", message, re.DOTALL)
        if found:
            self.plans.append(json.loads(found[1]))

    def every(self) -> list[Node]:
        return [node for plan in self.plans for node in _walk(plan["Plan"])]

    def nodes(self, relation: str) -> list[Node]:
        """How the relation was read."""
        return [
            node
            for node in self.every()
            if node.get("Relation Name") == relation and node["Node Type"] != "ModifyTable"
        ]

    def rows_read(self, relation: str) -> float:
        return sum(
            (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
            for node in self.nodes(relation)
        )

    def indexes(self, relation: str) -> set[str]:
        return {_index(node) for node in self.nodes(relation)}


def _index(node: Node) -> str:
    """What its rows are found with: of its own, or of the bitmap below. Subqueries of a row are
    scans of other relations."""
    below = [plan for plan in node.get("Plans", []) if plan["Parent Relationship"] == "Outer"]
    names = [
        inner["Index Name"]
        for start in ({**node, "Plans": []}, *below)
        for inner in _walk(start)
        if "Index Name" in inner
    ]
    return str(names[0] if names else node["Node Type"])


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.get("Plans", []):
        yield from _walk(child)

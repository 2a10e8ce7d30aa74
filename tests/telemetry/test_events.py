"""Two moments compared."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rota.model.metrics import Changes, OperatorAction
from rota.model.stats import QueueDepth
from rota.telemetry.events import EVENTS, TOPICS, compare


def told(before: Changes, now: Changes) -> list[tuple[str, dict[str, Any]]]:
    return [(event.name, event.data) for event in compare(before, now)]


def test_nothing_has_happened() -> None:
    same = Changes(
        attempts={("a", "q", "failed"): 3},
        counts={("occurrences", (("decision", "ran"),)): 2},
        depths={"q": QueueDepth("q", 0, 0, 1, 0, 0, 5.0)},
        workers={1: ("w", "live")},
    )
    older = QueueDepth("q", 0, 0, 1, 0, 0, 6.0)
    assert told(same, same) == []
    # Growing older is no news.
    assert told(same, Changes(same.attempts, same.counts, {"q": older}, same.workers)) == []


def test_attempts_and_ends_of_runs() -> None:
    ended = ("runs_ended", (("job", "a"), ("queue", "q"), ("state", "failed")))
    now = Changes(
        attempts={("a", "q", "succeeded"): 5, ("a", "q", "failed"): 3, ("a", "q", "odd"): 1},
        counts={ended: 1},
    )
    before = Changes(attempts={("a", "q", "succeeded"): 2})
    of = {"job": "a", "queue": "q"}
    assert told(before, now)[:3] == [
        ("run.succeeded", of | {"count": 3}),
        ("attempt.failed", of | {"count": 3}),
        ("run.failed", of | {"count": 1}),
    ]
    (name, data) = told(before, now)[-1]
    assert (name, data["attempts"]) == ("stats.changed", 7)


def test_a_queue_that_is_empty_now() -> None:
    before = Changes(depths={"q": QueueDepth("q", 0, 0, 4, 1, 2, 5.0)})
    queue, stats = told(before, Changes())
    assert queue[0] == "queue.changed"
    assert (queue[1]["queue"], queue[1]["queued"], queue[1]["oldest_seconds"]) == ("q", 0, None)
    assert stats[1]["running"] == 0


def test_decisions_lines_and_workers() -> None:
    now = Changes(
        counts={
            ("occurrences", (("decision", "skipped"), ("reason", "overlap"))): 2,
            ("occurrences", (("decision", "ran"),)): 1,
            ("lines_dropped", ()): 7,
            ("ticks", ()): 1,
        },
        workers={1: ("w", "stuck"), 2: ("v", "live")},
    )
    assert told(Changes(workers={2: ("v", "live")}), now) == [
        ("occurrence.decided", {"decision": "skipped", "reason": "overlap", "count": 2}),
        ("occurrence.decided", {"decision": "ran", "reason": None, "count": 1}),
        ("log.dropped", {"count": 7}),
        ("worker.stuck", {"worker": 1, "name": "w"}),
    ]


def test_what_operators_did() -> None:
    at = datetime(2026, 3, 8, tzinfo=UTC)
    deed = OperatorAction(7, at, "alice", "run.cancelled", "run", "42", "", "wrong user")
    ((name, data),) = told(Changes(), Changes(deeds=[deed]))
    assert (name, data["action"], data["at"]) == (
        "audit.recorded",
        "run.cancelled",
        "2026-03-08T00:00:00+00:00",
    )


def test_every_event_has_a_topic_that_exists() -> None:
    assert {topic for topic, _ in EVENTS.values()} == set(TOPICS)

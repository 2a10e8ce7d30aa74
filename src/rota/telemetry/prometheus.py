"""Metrics in the format of Prometheus.

They come from the database, so that one server reports the whole fleet; the response is computed
for every scrape, and nothing is kept in this process.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import (
    Metric as Family,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from rota.model.histogram import edge
from rota.model.metrics import Counter, Metrics
from rota.model.stats import QueueDepth
from rota.telemetry import metrics as known
from rota.telemetry.metrics import Metric

OTHER = "(other)"
# Queues with series of their own; if there are more, their names are probably made from data.
MOST_QUEUES = 100
# From 1 ms to 72 minutes, each four times the one before.
_EDGES = tuple((number, f"{edge(number):.6g}") for number in range(10, 34, 2))
_STATES = ("blocked", "scheduled", "held", "running")
_WORKER_STATES = ("live", "draining", "stopping", "stuck", "failing", "silent", "asleep", "lost")


def render(totals: Metrics, accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type, in the requested format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(totals))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class _Page(Collector):
    def __init__(self, totals: Metrics) -> None:
        self._totals = totals
        self._counters: dict[str, list[Counter]] = defaultdict(list)
        for counter in totals.counters:
            self._counters[counter.name].append(counter)
        self._jobs = {(attempt.job, attempt.queue) for attempt in totals.attempts}

    def describe(self) -> Iterable[Family]:
        return ()

    def collect(self) -> Iterator[Family]:
        yield from self._queues()
        yield from self._tenants()
        yield from self._attempts()
        yield from self._workers()
        yield from self._schedules()
        yield from self._limits()
        for metric in (
            known.WORKERS_LOST,
            known.LATE_ENDS,
            known.TICKS,
            known.LINES_STORED,
            known.LINES_DROPPED,
            known.RUNS_ADMITTED,
            known.LIMITS_MENDED,
        ):
            yield self._plain_counter(metric)
        for metric in (known.LOOP_ERRORS, known.OCCURRENCES, known.RUNS_DROPPED):
            yield self._labelled_counter(metric)
        for metric in (known.PICKUPS, known.SCHEDULE_CLAIMS, known.SCHEDULE_STARTS):
            yield self._histogram(metric)
        health = self._totals.health
        yield _counter(known.DUPLICATES, [((), health.duplicates)])
        yield _counter(known.EVENTS, [((), health.events)])
        yield _counter(known.EVENT_RUNS, [((), health.event_starts)])
        yield _counter(known.HOOK_REFUSALS, [((), health.hook_refusals)])

    def _queues(self) -> Iterator[Family]:
        depths = _bounded(self._totals.depths)
        runs = []
        for depth in depths:
            runs += [((depth.queue, state), getattr(depth, state)) for state in _STATES]
            runs.append(((depth.queue, "queued"), depth.queued - depth.held))
        yield _gauge(known.QUEUE_RUNS, runs)
        yield _gauge(known.QUEUE_OLDEST, [((it.queue,), it.oldest_seconds) for it in depths])
        yield _gauge(known.QUEUE_COUNT_AGE, [((), self._totals.counted_seconds)])
        yield _gauge(known.QUEUES_PAUSED, [((), self._totals.health.queues_paused)])
        yield from self._caps()

    def _caps(self) -> Iterator[Family]:
        caps = self._totals.caps
        yield _gauge(known.QUEUE_CAP, [((it.queue,), it.max_waiting) for it in caps])
        yield _gauge(known.QUEUE_CAP_WAITING, [((it.queue,), it.waiting) for it in caps])
        yield _gauge(known.QUEUES_FULL, [((), self._totals.health.queues_full)])
        yield _counter(known.QUEUE_REFUSALS, [((), self._totals.health.queue_refusals)])

    def _tenants(self) -> Iterator[Family]:
        found = [(tenant.tenant or OTHER, tenant) for tenant in self._totals.tenants]
        runs = [
            ((name, state), getattr(tenant, state))
            for name, tenant in found
            for state in (*_STATES, "queued")
        ]
        attempts = [
            ((name, outcome), getattr(tenant, outcome))
            for name, tenant in found
            for outcome in ("succeeded", "failed")
        ]
        yield _gauge(known.TENANT_RUNS, runs)
        yield _gauge(known.TENANT_ATTEMPTS, attempts)
        yield _gauge(known.TENANTS_PAUSED, [((), self._totals.tenants_paused)])

    def _attempts(self) -> Iterator[Family]:
        family = _histogram(known.DURATIONS)
        totals = []
        ended: dict[tuple[str, ...], float] = defaultdict(float)
        for total in self._totals.attempts:
            labels = (total.job, total.queue, total.outcome)
            totals.append((labels, total.attempts))
            _add(family, labels, total.buckets, total.seconds)
            if total.outcome == "succeeded":
                ended[total.job, total.queue, "succeeded"] += total.attempts
        for count in self._counters["runs_ended"]:
            pair = count.labels["job"], count.labels["queue"]
            named = pair if pair in self._jobs else (OTHER, OTHER)
            ended[*named, count.labels["state"]] += count.amount
        yield _counter(known.ATTEMPTS, totals)
        yield family
        yield _counter(known.RUNS_ENDED, ended.items())

    def _workers(self) -> Iterator[Family]:
        health = self._totals.health
        states = [((state,), getattr(health, state)) for state in _WORKER_STATES]
        yield _gauge(known.WORKERS, states)
        yield _gauge(known.SLOTS, [((), health.slots)])
        yield _gauge(known.HEARTBEAT_AGE, [((), health.heartbeat_seconds)])
        yield _gauge(known.WORKERS_MEMORY, [((), health.memory_bytes)])
        yield _gauge(known.WORKER_MEMORY, [((), health.memory_most_bytes)])
        yield _gauge(known.WORKERS_CPU, [((), health.cpu_cores)])

    def _limits(self) -> Iterator[Family]:
        limits = self._totals.limits
        yield _gauge(known.LIMIT_IN_USE, [((it.name,), it.in_use) for it in limits])
        yield _gauge(known.LIMIT_WAITING, [((it.name,), it.waiting) for it in limits])

    def _schedules(self) -> Iterator[Family]:
        health = self._totals.health
        states = [
            (("active",), health.schedules_active),
            (("paused",), health.schedules_paused),
            (("parked",), health.schedules_parked),
        ]
        yield _gauge(known.SCHEDULES, states)
        yield _gauge(known.OVERDUE, [((), health.overdue_seconds)])
        ages = [tick.age for tick in self._counters["ticks"]]
        yield _gauge(known.TICK_AGE, [((), min(ages, default=None))])

    def _plain_counter(self, metric: Metric) -> Family:
        """Return 0 if nothing was counted: a series that appears with its first event hides that
        event."""
        total = sum(counter.amount for counter in self._counters[metric.source or ""])
        return _counter(metric, [((), total)])

    def _labelled_counter(self, metric: Metric) -> Family:
        counts = self._counters[metric.source or ""]
        return _counter(
            metric,
            [
                (tuple(it.labels.get(name, "") for name in metric.labels), it.amount)
                for it in counts
            ],
        )

    def _histogram(self, metric: Metric) -> Family:
        family = _histogram(metric)
        counts = self._counters[metric.source or ""]
        names = sorted(counter.labels.get("queue", "") for counter in counts)[:MOST_QUEUES]
        sums: dict[tuple[str, ...], tuple[list[int], float]] = {}
        for counter in counts:
            if counter.buckets is None:
                continue
            queue = counter.labels.get("queue", "")
            labels: tuple[str, ...] = ()
            if metric.labels:
                labels = (queue if queue in names else OTHER,)
            buckets, seconds = sums.get(labels, ([0] * len(counter.buckets), 0.0))
            added = [a + b for a, b in zip(buckets, counter.buckets, strict=True)]
            sums[labels] = added, seconds + counter.seconds
        for labels, (buckets, seconds) in sums.items():
            _add(family, labels, buckets, seconds)
        return family


def _bounded(depths: Sequence[QueueDepth]) -> list[QueueDepth]:
    """Return the deepest queues, and the others as one."""
    ordered = sorted(depths, key=lambda it: (-it.queued - it.running, it.queue))
    named, others = ordered[:MOST_QUEUES], ordered[MOST_QUEUES:]
    if others:
        named.append(
            QueueDepth(
                queue=OTHER,
                blocked=sum(it.blocked for it in others),
                scheduled=sum(it.scheduled for it in others),
                queued=sum(it.queued for it in others),
                held=sum(it.held for it in others),
                running=sum(it.running for it in others),
                oldest_seconds=max(it.oldest_seconds or 0 for it in others),
            )
        )
    return named


def _gauge(metric: Metric, values: Iterable[tuple[tuple[str, ...], float | None]]) -> Family:
    family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values:
        if value is not None:
            family.add_metric(labels, value)
    return family


def _counter(metric: Metric, values: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    family = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family


def _histogram(metric: Metric) -> HistogramMetricFamily:
    return HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)


def _add(
    family: HistogramMetricFamily, labels: tuple[str, ...], buckets: Sequence[int], seconds: float
) -> None:
    sums = list(accumulate(buckets))
    found = [(shown, float(sums[number])) for number, shown in _EDGES]
    family.add_metric(labels, [*found, ("+Inf", float(sums[-1]))], seconds)

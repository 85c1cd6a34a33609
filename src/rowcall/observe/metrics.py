"""The Prometheus metrics of one worker process. Imported only if they are enabled."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rowcall.domain.config import VERSION
from rowcall.domain.job import Stats
from rowcall.observe.meter import Bounded, Latest, Meter, QueueFacts


class QueueCollector(Collector):
    """The state of the queues: jobs in each state, how long the oldest waits, and what needs attention."""

    def __init__(self, latest: Callable[[], QueueFacts | None]) -> None:
        self._latest = latest
        self._queues = Bounded()

    def collect(self) -> Iterator[Metric]:
        facts = self._latest()
        up = "Whether the database answered the query for counts."
        yield GaugeMetricFamily("rowcall_up", up, value=float(facts is not None))
        if facts is not None:
            yield from self._queue_state(facts.stats)
            said = "Findings that need attention, by code; 0 if there are none of it."
            attention = GaugeMetricFamily("rowcall_attention", said, labels=["code"])
            for code, count in facts.attention.items():
                attention.add_metric([code], count)
            yield attention

    def _queue_state(self, stats: Stats) -> Iterator[Metric]:
        counts: Counter[tuple[str, str]] = Counter()
        ages: dict[str, float] = {}
        for queue, by_status in sorted(stats.by_queue.items()):
            label, _ = self._queues.label((queue, ""))
            for status, count in by_status.items():
                counts[label, status] += count
            ages[label] = max(ages.get(label, 0.0), stats.oldest_waiting_by_queue.get(queue, 0.0))
        jobs = GaugeMetricFamily("rowcall_jobs", "Jobs in the database.", labels=["queue", "status"])
        for labels, count in counts.items():
            jobs.add_metric(labels, count)
        yield jobs
        oldest = GaugeMetricFamily(
            "rowcall_oldest_waiting_seconds", "How long the oldest pending job has been due.", labels=["queue"]
        )
        for label, age in ages.items():
            oldest.add_metric([label], age)
        yield oldest


class WorkerCollector(Collector):
    """What a worker has done, what it is doing, and the state of the queues."""

    def __init__(self, meter: Meter, counts: Latest[QueueFacts], slots: int, busy: Callable[[], int]) -> None:
        self._meter = meter
        self._queues = QueueCollector(counts.latest)
        self._slots = slots
        self._busy = busy

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "rowcall_build",
            "The version of Rowcall and of Python.",
            value={"version": VERSION, "python_version": platform.python_version()},
        )
        yield GaugeMetricFamily("rowcall_worker_slots", "Jobs that this worker may run at once.", value=self._slots)
        yield GaugeMetricFamily("rowcall_worker_busy", "Jobs that this worker is running.", value=self._busy())
        yield from self._attempts()
        yield from self._queues.collect()

    def _attempts(self) -> Iterator[Metric]:
        ended = "Attempts of this worker that ended, by outcome."
        attempts = CounterMetricFamily("rowcall_attempts", ended, labels=["queue", "task", "outcome"])
        for labels, count in self._meter.attempts():
            attempts.add_metric(labels, count)
        yield attempts
        for name, text, counts in (
            ("recovered", "Attempts of lost workers that this worker recovered.", self._meter.recovered()),
            ("lost", "Recovered attempts whose handlers had started.", self._meter.lost()),
        ):
            recovered = CounterMetricFamily(f"rowcall_{name}_attempts", text, labels=["queue", "task"])
            for pair, count in counts:
                recovered.add_metric(pair, count)
            yield recovered
        waited = "How long jobs that were due waited to be claimed."
        for name, text, histograms in (
            ("rowcall_attempt_duration_seconds", "How long handlers ran.", self._meter.ran()),
            ("rowcall_job_wait_seconds", waited, self._meter.waited()),
        ):
            histogram = HistogramMetricFamily(name, text, labels=["queue", "task"])
            for pair, buckets, total in histograms:
                histogram.add_metric(pair, buckets, total)
            yield histogram


class _DefaultRegistry(Collector):
    """The metrics of the app and of prometheus_client, from the default registry."""

    def collect(self) -> Iterator[Metric]:
        yield from REGISTRY.collect()


def exposition(facts: QueueFacts | None) -> bytes:
    """Return the state of the queues as Prometheus reads it; None if the database does not answer."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(QueueCollector(lambda: facts))
    return generate_latest(registry)


def registry_of(collector: WorkerCollector) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    registry.register(_DefaultRegistry())
    return registry

"""Everything that is measured, in the order of the table."""

from __future__ import annotations

from benchmarks.bench import Experiment
from benchmarks.experiments import backlog, crowd, delay, drain, endurance, enqueue, idle, pickup

EXPERIMENTS = (
    Experiment("drain", "drains: the bare ceiling, Rowcall, huey", drain.measure),
    Experiment("enqueue", "enqueueing beside bare inserts", enqueue.measure),
    Experiment("backlog", "drains from a large table", backlog.measure),
    Experiment("pickup", "pick-up by an idle worker", pickup.measure, heavy=True),
    Experiment("delay", "lateness of delayed jobs", delay.measure, heavy=True),
    Experiment("idle", "processor time of an idle worker", idle.measure, heavy=True),
    Experiment("endurance", "memory and WAL in a long drain", endurance.measure, heavy=True),
    Experiment("crowd", "enqueueing in a crowd", crowd.measure, heavy=True),
)

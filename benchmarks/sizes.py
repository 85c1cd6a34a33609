"""How much of everything is measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The full run; `QUICK` only shows that everything works."""

    readme_jobs: int = 100_000
    drain_jobs: int = 40_000
    huey_jobs: int = 4_000
    fastest_huey_jobs: int = 15_000
    single_inserts: int = 2_000
    gathered_enqueues: int = 20_000
    bulk_inserts: int = 40_000
    caller_transactions: int = 1_000
    caller_statements: int = 5_000
    finished_jobs: int = 1_000_000
    future_jobs: int = 1_000_000
    waiting_jobs: int = 1_000_000
    unknown_jobs: int = 200_000
    backlog_drain_jobs: int = 120_000
    pick_ups: int = 300
    delayed_jobs: int = 400
    delayed_over_seconds: float = 4.0
    idle_seconds: float = 10.0
    endurance_jobs: int = 500_000
    memory_early_jobs: int = 50_000
    memory_late_jobs: int = 200_000
    crowd_backlog: int = 200_000
    crowd_enqueues: int = 4_000
    crowd_seconds: float = 20.0
    postgres_drain_jobs: int = 60_000
    mysql_drain_jobs: int = 20_000
    procrastinate_jobs: int = 4_000
    saq_jobs: int = 4_000
    churn_jobs: int = 2_000_000
    producing_seconds: float = 3.0
    busy_backlog: int = 150_000
    questions_finished: int = 7_500_000
    questions_retrying: int = 2_000_000
    questions_waiting: int = 400_000
    questions_future: int = 100_000
    questions_running: int = 20_000
    pruned_jobs: int = 1_000_000
    bulk_jobs: int = 1_000_000
    drain_during_prune_jobs: int = 300_000
    flow_jobs: int = 36_000
    step_jobs: int = 3_000
    fair_values: int = 100_000
    queues: int = 1_000
    field_share: float = 1.0
    field_bulk_jobs: int = 10_000
    field_pick_ups: int = 100
    field_kill_seconds: float = 60.0
    field_patience_seconds: float = 90.0


FULL = Sizes()

QUICK = Sizes(
    readme_jobs=3_000,
    drain_jobs=2_000,
    huey_jobs=200,
    fastest_huey_jobs=500,
    single_inserts=100,
    gathered_enqueues=1_000,
    bulk_inserts=2_000,
    caller_transactions=100,
    caller_statements=1_000,
    finished_jobs=5_000,
    future_jobs=5_000,
    waiting_jobs=1_000,
    unknown_jobs=1_000,
    backlog_drain_jobs=2_000,
    pick_ups=20,
    delayed_jobs=20,
    delayed_over_seconds=0.5,
    idle_seconds=1.0,
    endurance_jobs=6_000,
    memory_early_jobs=1_500,
    memory_late_jobs=4_000,
    crowd_backlog=5_000,
    crowd_enqueues=100,
    crowd_seconds=3.0,
    postgres_drain_jobs=3_000,
    mysql_drain_jobs=2_000,
    procrastinate_jobs=100,
    saq_jobs=100,
    churn_jobs=12_000,
    producing_seconds=0.5,
    busy_backlog=20_000,
    questions_finished=20_000,
    questions_retrying=2_000,
    questions_waiting=1_000,
    questions_future=1_000,
    questions_running=400,
    pruned_jobs=5_000,
    bulk_jobs=5_000,
    drain_during_prune_jobs=3_000,
    flow_jobs=3_000,
    step_jobs=1_000,
    fair_values=3_000,
    queues=100,
    field_share=0.1,
    field_bulk_jobs=1_000,
    field_pick_ups=10,
    field_kill_seconds=5.0,
    field_patience_seconds=5.0,
)

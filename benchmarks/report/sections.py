"""The sections of the page: one for each database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from benchmarks.database import Kind
from benchmarks.report.labels import MYSQL_LABELS, POSTGRES_LABELS, SQLITE_LABELS
from benchmarks.targets import MYSQL_TARGETS, POSTGRES_TARGETS, SQLITE_TARGETS, Measured, Target

CEILING, OURS, OURS_LIGHTER, OTHER, OTHER_LIGHTER = "#b8bec7", "#4f46e5", "#a5a6ff", "#d9a066", "#e6c39c"


class Bar(NamedTuple):
    """One bar of the picture of drains."""

    figure: str
    label: str
    colour: str


class Section(NamedTuple):
    kind: Kind
    heading: str
    targets: tuple[Target, ...]
    labels: Mapping[str, str]
    drains_title: str
    drains: tuple[Bar, ...]


SECTIONS = (
    Section(
        "sqlite",
        "SQLite",
        SQLITE_TARGETS,
        SQLITE_LABELS,
        "Draining no-op jobs from one SQLite file, one worker process",
        (
            Bar("drain.ceiling", "bare ceiling\n(no worker at all)", CEILING),
            Bar("drain.async", "Rowcall\nasync handlers", OURS),
            Bar("drain.sync", "Rowcall\nsync handlers, threads", OURS_LIGHTER),
            Bar("drain.huey_default", "huey\ndefault durability", OTHER),
            Bar("drain.huey_fastest", "huey fastest\n(fsync off)", OTHER_LIGHTER),
        ),
    ),
    Section(
        "postgres",
        "PostgreSQL",
        POSTGRES_TARGETS,
        POSTGRES_LABELS,
        "Draining no-op jobs from PostgreSQL, durable commits",
        (
            Bar("postgres-drain.ceiling", "bare ceiling\n1 connection", CEILING),
            Bar("postgres-drain.async", "Rowcall\n1 process", OURS),
            Bar("postgres-drain.pgqueuer", "PgQueuer\n1 process", OTHER),
            Bar("postgres-drain.graphile", "graphile-worker\n1 process", OTHER),
            Bar("postgres-drain.ceiling_of_two", "bare ceiling\n2 connections", CEILING),
            Bar("postgres-drain.async_of_two", "Rowcall\n2 processes", OURS),
            Bar("postgres-drain.pgqueuer_of_two", "PgQueuer\n2 processes", OTHER),
            Bar("postgres-drain.graphile_of_two", "graphile-worker\n2 processes", OTHER),
            Bar("postgres-drain.procrastinate", "procrastinate\n1 process", OTHER_LIGHTER),
            Bar("postgres-drain.saq", "SAQ\n1 process", OTHER_LIGHTER),
        ),
    ),
    Section(
        "mysql",
        "MariaDB",
        MYSQL_TARGETS,
        MYSQL_LABELS,
        "Draining no-op jobs from MariaDB, durable commits",
        (
            Bar("mysql-drain.ceiling", "bare loop of the same statements", CEILING),
            Bar("mysql-drain.async", "Rowcall", OURS),
        ),
    ),
)


def measured_sections(measured: Measured) -> list[Section]:
    """Return the sections with at least one figure."""
    return [section for section in SECTIONS if any(measured.get(name) for name in section.labels)]


def label_of(figure: str) -> str:
    return next((section.labels[figure] for section in SECTIONS if figure in section.labels), figure)

"""Which queue a command is about: `app:jobs`, `--url`, `$ROWCALL_URL` or `rowcall.db`."""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import click
import msgspec

from rowcall.app import Rowcall, queue_of
from rowcall.base.text import did_you_mean
from rowcall.cli.django_project import django_app
from rowcall.cli.doctor.schema_version import version_of
from rowcall.cli.load import load
from rowcall.domain.config import PATH_ADVICE, shown
from rowcall.domain.encryption import Encryption
from rowcall.domain.errors import InvalidOption, SchemaMismatch, StoreUnavailable, about_option
from rowcall.overview.attention.situation import APP
from rowcall.queue import Queue


class Target(NamedTuple):
    """A queue, and how it was named on the command line."""

    jobs: Rowcall
    app: str | None = None
    url: str | None = None

    @property
    def queue(self) -> Queue:
        return queue_of(self.jobs)

    def command(self, name: str, *words: str) -> str:
        """Return what to type for another command about this queue."""
        named = [self.app] if self.app is not None else ["--url", shown(self.url)] if self.url is not None else []
        return shlex.join(["rowcall", name, *named, *words])

    def typed(self, advice: str) -> str:
        """Return the advice with commands about this queue, where it names the app only as an example."""

        def named(found: re.Match[str]) -> str:
            return self.work_command if found[1] == "work" else self.command(found[1])

        return re.sub(rf"\browcall ([a-z-]+) {APP}\b", named, advice)

    def unknown_name(self, queue: str | None, task: str | None) -> str:
        """Return what to say about a queue or a task that is not known, or an empty text."""
        if queue is None and task is None:
            return ""
        stats, declared = self.jobs.stats(), self.queue.declared.tasks
        default = self.queue.config.default_queue
        queues = {*stats.by_queue, *(one.options.queue or default for one in declared.values())}
        for kind, name, known in (("queue", queue, queues), ("task", task, {*stats.by_type, *declared})):
            if name is not None and name not in known:
                nowhere = f"{self.app} does not declare it, and no job has it" if self.app else "no job has it"
                return f"unknown {kind} {name!r}: {nowhere}{did_you_mean(name, known)}"
        return ""

    @property
    def work_command(self) -> str:
        return f"rowcall work {self.app or APP}"


def find(app: str | None, url: str | None) -> Target:
    """Return the queue without opening it."""
    if app is not None and url is not None:
        raise click.UsageError("give APP or --url, not both")
    if app is None and url is None:
        app = django_app()
    if app is not None:
        return Target(load(app), app)
    try:
        target = Target(Rowcall(url, auto_migrate=False, encrypt=_keys()), None, url)
        target.queue.config  # noqa: B018  # read $ROWCALL_URL now
        return target
    except InvalidOption as error:
        given = "--url" if url is not None else "$ROWCALL_URL"
        raise click.UsageError(about_option(given, error.problem.removesuffix(PATH_ADVICE))) from error


def _keys() -> Encryption | None:
    """Return the keys in the environment, for commands that name a database and no app."""
    keys = [key.strip() for key in os.environ.get("ROWCALL_ENCRYPTION_KEYS", "").split(",") if key.strip()]
    try:
        return Encryption(keys=keys) if keys else None
    except InvalidOption as error:
        raise click.UsageError(f"$ROWCALL_ENCRYPTION_KEYS: {error.problem}") from error


def has_tables(target: Target) -> bool:
    """Return whether the tables of the queue exist. Creates nothing."""
    queue = target.queue
    if queue.config.in_memory or (queue.config.server is None and not os.path.exists(queue.database.path)):
        return False
    return version_of(queue).found > 0


def existing(app: str | None, url: str | None) -> Target:
    """Return the queue if it and its tables exist: looking at a queue never makes one."""
    target = find(app, url)
    queue = target.queue
    queue.backend.config = msgspec.structs.replace(queue.config, auto_migrate=False)
    path = queue.database.path
    if queue.config.in_memory:
        raise StoreUnavailable("this queue exists only in the memory of the process that opened it", "Use it there")
    if queue.config.server is None and not os.path.exists(path):
        advice = "Check the path and the current folder; the first enqueue makes the file"
        if app is None and url is None:
            advice = "Name the app (app:jobs), give --url, or set ROWCALL_URL"
        raise StoreUnavailable(f"there is no file {path}", advice)
    try:
        _require_tables(target)
    except BaseException:
        target.jobs.close()
        raise
    return target


def declaring(app: str | None, url: str | None) -> Target:
    """Return the queue. An app declares tasks and schedules before there are tables."""
    target = find(app, url)
    return existing(app, url) if app is None or has_tables(target) else target


def _require_tables(target: Target) -> None:
    queue, migrate = target.queue, target.command("migrate")
    version, newest = version_of(queue), queue.dialect.newest_version
    version.require_fit(newest)
    number = version.found
    if 0 < number < newest:
        raise SchemaMismatch(number, newest, f"run: {migrate}")
    if number:
        return
    advice = f"Create them with: {migrate}"
    if target.app is None:
        advice += "; if the app sets table_prefix, name the app instead of --url"
    if queue.config.server is not None:
        advice += "; if the tables are in another schema, put it on the search_path"
    raise StoreUnavailable(f"{queue.database.name} has no tables named {queue.config.table_prefix}*", advice)


def url_of(path: Path) -> str:
    """Return the URL of a file, to be passed to another process."""
    return f"sqlite:///{quote(str(path.resolve()))}"

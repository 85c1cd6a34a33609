"""`rowcall work`: a worker that owns its process, or a supervisor over several."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, get_args

import click

from rowcall.app import queue_of
from rowcall.base.clock import SystemClock
from rowcall.cli.command import typed_option
from rowcall.cli.django_project import django_app
from rowcall.cli.load import load
from rowcall.cli.present import log
from rowcall.cli.processes import reloading
from rowcall.context import logger
from rowcall.domain.errors import SchemaMismatch
from rowcall.observe.metrics_server import DEFAULT_HOST, require_free
from rowcall.overview.formats import counted
from rowcall.queue import Queue
from rowcall.worker.pace import DEFAULT_CONCURRENCY, DEFAULT_GRACE_SECONDS, DEFAULT_LEASE_SECONDS, MOST_PORT
from rowcall.worker.process.os_signals import work
from rowcall.worker.process.supervisor import Supervisor, obey
from rowcall.worker.settings import LogJobs
from rowcall.worker.settings import settings as check_settings

MOST_PROCESSES = 256


@click.command("work")
@click.argument("named", metavar="APP", required=False)
@click.option(
    "--concurrency", type=int, default=DEFAULT_CONCURRENCY, show_default=True, help="Jobs at a time, per process."
)
@click.option(
    "--queues", metavar="NAME[=LIMIT],…", help="Serve only these queues; LIMIT is jobs at a time, per process."
)
@click.option(
    "--processes", type=click.IntRange(1, MOST_PROCESSES), default=1, show_default=True, help="Worker processes."
)
@click.option(
    "--grace",
    type=float,
    metavar="SECONDS",
    default=DEFAULT_GRACE_SECONDS,
    show_default=True,
    help="How long running jobs may continue after SIGTERM before they are released.",
)
@click.option(
    "--lease",
    type=float,
    metavar="SECONDS",
    default=DEFAULT_LEASE_SECONDS,
    show_default=True,
    help="How long the worker may go without a heartbeat before workers on other hosts recover its jobs.",
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Log lines of this level and above.",
)
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Text (default), or one JSON object per line.")
@click.option(
    "--log-jobs",
    type=click.Choice(get_args(LogJobs)),
    default="auto",
    show_default=True,
    help="Log each attempt, or only the ones that fail; auto: above 100 a second, one line a second for each task.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, MOST_PORT),
    metavar="PORT",
    help="Serve Prometheus metrics on this port; further processes use the ports above it.",
)
@click.option(
    "--metrics-host", metavar="HOST", default=DEFAULT_HOST, show_default=True, help="Address of the metrics port."
)
@click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="Import this module, too, because it declares tasks; may be given several times.",
)
@click.option("--reload", is_flag=True, help="For development: restart when a Python file below this folder changes.")
@click.option("--leash", type=int, hidden=True)
def work_command(
    named: str | None,
    processes: int,
    log_level: str,
    log_format: str | None,
    imports: tuple[str, ...],
    reload: bool,
    leash: int | None,
    **settings: Any,
) -> None:
    """Run the jobs of APP until SIGINT or SIGTERM.

    The first signal lets running jobs finish, the second releases them at once. Logs go to standard error.

    If APP is in a package, its modules named tasks are imported, too: of shop.app:jobs, shop/tasks.py and
    shop/*/tasks.py.

    In a Django project (DJANGO_SETTINGS_MODULE is set), APP may be left out, and the modules named tasks of all
    installed apps are imported.

    \b
        rowcall work app:jobs --concurrency 20 --queues mail=10,default=5
    """
    app = named or django_app()
    if app is None:
        raise click.UsageError("Missing argument 'APP'.")

    def supervise_processes(*, reloads: bool) -> None:
        given = {**settings, "log_level": log_level, "log_format": log_format}
        _supervise(_command(app, imports, given), processes, settings, leash, reloads=reloads)

    if reload:  # imports nothing of the app, so that no error in it ends this process
        check_settings(**settings)
        log.set_up(log_level, log_format)
        supervise_processes(reloads=True)
        return
    jobs = load(app, imports)
    queue = queue_of(jobs)
    queue.declared.app_module = app.partition(":")[0]
    # after the import, so that an app can set up logging itself
    log.set_up(log_level, log_format)
    worker = jobs.worker(**settings)
    if processes > 1 and queue.config.in_memory:
        raise click.UsageError("--processes: a queue in memory cannot be shared by several processes")
    if processes > 1:
        with _migration_named(app):
            worker.check_folder()  # report problems of the database and its folder once, here
        jobs.close()
        supervise_processes(reloads=False)
        return
    if leash is not None:
        obey(leash, worker)

    with _migration_named(app):
        work(worker, ready=lambda: _log_start(app, queue, settings))
    logger.info("stopped")


def _command(app: str, imports: Iterable[str], given: Mapping[str, object]) -> list[str]:
    """Return the command of a worker process, without its metrics port: each has its own."""
    own = {name: value for name, value in given.items() if value is not None and not name.startswith("metrics_")}
    options = [f"{typed_option(name)}={value}" for name, value in own.items()]
    options += [f"--import={module}" for module in imports]
    return [sys.executable, "-m", "rowcall", "work", app, *options]


def _supervise(
    command: list[str], processes: int, settings: Mapping[str, Any], leash: int | None, *, reloads: bool
) -> None:
    more = _with_metrics(settings["metrics_host"], settings["metrics_port"], processes)
    supervisor = Supervisor(command, processes, settings["grace"], SystemClock(), more, reloads=reloads)
    if leash is not None:
        supervisor.obey(leash)
    with reloading(supervisor.reload) if reloads else contextlib.nullcontext():
        well = supervisor.run()
    if not well:
        sys.exit(1)


def _log_start(app: str, queue: Queue, settings: Mapping[str, Any]) -> None:
    served = "all queues" if settings["queues"] is None else f"queues {settings['queues']}"
    tasks = counted(len(queue.declared.tasks) - len(queue.declared.aliases), "task")
    logger.info("working on %s: %s, %s, %s at a time", queue.database.name, tasks, served, settings["concurrency"])
    if not queue.declared.tasks:
        logger.warning("%s declares no task: this worker has nothing to run", app)


@contextlib.contextmanager
def _migration_named(app: str) -> Iterator[None]:
    """Name the app in the advice of a `SchemaMismatch`."""
    try:
        yield
    except SchemaMismatch as error:
        if "auto_migrate is off" not in str(error):
            raise
        advice = f"run: rowcall migrate {app} (auto_migrate is off)"
        raise SchemaMismatch(error.found, error.wanted, advice) from error


def _with_metrics(host: str, port: int | None, processes: int) -> Callable[[int], list[str]]:
    """Return the options of the process with a given number: each has its own port."""
    if port is None:
        return lambda number: []
    if port + processes - 1 > MOST_PORT:
        raise click.UsageError(
            f"--metrics-port: {processes} processes need ports {port} and up; {MOST_PORT} is the last"
        )
    require_free(host, range(port, port + processes))
    return lambda number: [f"--metrics-port={port + number - 1}", f"--metrics-host={host}"]

"""The extension: configuration from the app, and its context around handlers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Flask, current_app, has_app_context
from flask.cli import NoAppException, ScriptInfo

from rowcall.app import Rowcall, queue_of
from rowcall.context import Context
from rowcall.domain.config import QueueOptions
from rowcall.domain.errors import InvalidOption, refuse_unknown
from rowcall.integrations.flask.commands import rowcall_command
from rowcall.middleware.around import around

NAME = "rowcall"
_PREFIX = "ROWCALL_"


class RowcallFlask:
    """Background jobs of a Flask app: `RowcallFlask(app)`, or `init_app(app)` in an application factory.

        rowcall = RowcallFlask()
        jobs = rowcall.jobs

        @jobs.task
        def send_email(to: str) -> None:
            current_app.logger.info("mail to %s", to)      # handlers run in the app's context

        def create_app() -> Flask:
            app = Flask(__name__)
            app.config["ROWCALL_URL"] = "sqlite:///app.db"
            rowcall.init_app(app)
            return app

    `ROWCALL_URL` and the other options of `Rowcall`, such as `ROWCALL_DEFAULT_QUEUE`, are read from `app.config`.
    `flask rowcall work` and the other commands of `rowcall` are commands of the app.
    """

    def __init__(self, app: Flask | None = None, jobs: Rowcall | None = None) -> None:
        if jobs is not None and not isinstance(jobs, Rowcall):
            raise InvalidOption("jobs", f"must be a Rowcall, got {jobs!r}")
        self.jobs: Rowcall = Rowcall() if jobs is None else jobs
        self._app: Flask | None = None
        self._options: dict[str, Any] = {}
        self.jobs.middleware(around(self._in_app_context))
        if app is not None:
            self.init_app(app)

    def __repr__(self) -> str:
        return f"<RowcallFlask of {self.jobs!r}>"

    def init_app(self, app: Flask) -> None:
        """Configure the queue from `app.config`. Several apps of one process may share it, with the same options."""
        if app.extensions.get(NAME, self) is not self:
            raise InvalidOption("app", f"{app.name!r} has another RowcallFlask already")
        options = app.config.get_namespace(_PREFIX)
        refuse_unknown(options, {"url", *QueueOptions.__annotations__})
        if options and (options != self._options or queue_of(self.jobs).is_swapped):
            self.jobs.configure(**options)
        self._options = options
        self._app = app
        app.extensions[NAME] = self
        app.cli.add_command(rowcall_command)

    @contextmanager
    def _in_app_context(self, ctx: Context) -> Iterator[None]:
        with self._found_app().app_context():
            yield

    def _found_app(self) -> Flask:
        if self._app is None:  # a worker that did not call the factory, or a child process of one
            app = _load_app()
            if app.extensions.get(NAME) is not self:
                raise InvalidOption("app", f"{app.name!r} does not call init_app of this RowcallFlask")
            self._app = app
        return self._app


def jobs_of_app() -> Rowcall:
    """Return the queue of the current app, or of the app that `flask` would find: `rowcall.flask:jobs`."""
    app: Flask = current_app._get_current_object() if has_app_context() else _load_app()  # type: ignore[attr-defined]
    extension = app.extensions.get(NAME)
    if not isinstance(extension, RowcallFlask):
        raise InvalidOption("app", f"{app.name!r} has no RowcallFlask: call RowcallFlask(app) or init_app(app)")
    return extension.jobs


def attribute(name: str) -> object:
    """Return what `rowcall.flask` has in addition to its own names: `jobs`, for `rowcall work rowcall.flask:jobs`."""
    if name == "jobs":
        return jobs_of_app()
    raise AttributeError(f"module 'rowcall.flask' has no attribute {name!r}")


def _load_app() -> Flask:
    try:
        return ScriptInfo(os.environ.get("FLASK_APP")).load_app()
    except NoAppException as error:
        raise InvalidOption(
            "app", f"no Flask app was found: start the worker with flask --app … rowcall work ({error.message})"
        ) from error

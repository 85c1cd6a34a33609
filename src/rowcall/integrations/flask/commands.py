"""`flask rowcall work` and the other commands."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click
from flask.cli import ScriptInfo

from rowcall.cli.main import COMMANDS, main

APP = "rowcall.flask:jobs"
_WITHOUT_QUEUE = ("bench", "completion", "demo", "init")


@click.command(
    "rowcall",
    short_help="Run and show background jobs: rowcall work, rowcall jobs, …",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def rowcall_command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Run a command of `rowcall` on the queue of this app."""
    info = ctx.find_object(ScriptInfo)
    if info is not None and info.app_import_path:
        os.environ["FLASK_APP"] = info.app_import_path  # for the processes that a worker starts
    main(with_app(words))


def with_app(words: Sequence[str]) -> list[str]:
    """Insert the app after the command.

    >>> with_app(["show", "7"])
    ['show', 'rowcall.flask:jobs', '7']
    """
    named = words[:1] and words[0] in COMMANDS and words[0] not in _WITHOUT_QUEUE
    elsewhere = any(word == "--url" or word.startswith("--url=") for word in words)
    return [words[0], APP, *words[1:]] if named and not elsewhere else list(words)

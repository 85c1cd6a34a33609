"""`rowcall`: finds the command, and turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from rowcall.errors import InvalidOption, RowcallError

COMMANDS = {
    "work": "work",
    "jobs": "jobs",
    "show": "show",
    "stats": "stats",
    "retry": "steer",
    "cancel": "steer",
    "delete": "steer",
    "workers": "workers",
    "migrate": "migrate",
    "doctor": "doctor.command",
    "bench": "bench",
    "demo": "demo",
}
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130


class Commands(click.Group):
    """Imports a command's module only when it is needed: a worker never pays for the tables of `stats`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"rowcall.cli.{COMMANDS[name]}")
        command: click.Command = getattr(module, f"{name}_command")
        return command

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        try:
            code = super().main(args, "rowcall", **extra)
        except Exception as error:
            code = _report(error)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception) -> int:
    """Say what went wrong, in one line; gives the exit code."""
    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return WRONG_USE
        case click.UsageError():
            if error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
            return _say(error.format_message(), WRONG_USE)
        case click.ClickException():
            return _say(error.format_message(), error.exit_code)
        case click.Abort():
            return INTERRUPTED
        case InvalidOption():
            return _say(str(error), WRONG_USE)
        case RowcallError():
            return _say(str(error), FAILED)
        case OSError(errno=errno.EPIPE):
            # whoever read our output has gone; what Python flushes at its end must go nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return FAILED
    raise error


def _say(problem: str, code: int) -> int:
    click.echo(f"{click.style('error:', fg='red', bold=True) if _coloured() else 'error:'} {problem}", err=True)
    return code


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 what was asked for failed or was not found, 2 wrong use.",
)
@click.version_option(package_name="rowcall", prog_name="rowcall")
def main() -> None:
    """Background jobs as rows in the database you already have.

    A command finds its database by APP (module:name of a Rowcall, looked for in the current folder first), by --url, by
    $ROWCALL_URL, or else takes the file rowcall.db. With --json a command prints one JSON object, on one line;
    errors go to standard error in any case.
    """

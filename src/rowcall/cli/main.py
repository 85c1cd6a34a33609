"""`rowcall`: finds the command, and turns errors into one line and an exit code."""

from __future__ import annotations

import difflib
import errno
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from rowcall.base.text import printable
from rowcall.base.urls import looks_secret, redacted
from rowcall.domain.errors import InvalidOption, RowcallError

COMMANDS = {
    "work": "work",
    "jobs": "jobs",
    "show": "show",
    "stats": "stats",
    "stuck": "stuck",
    "retries": "retries",
    "errors": "errors",
    "top": "top",
    "retry": "steer",
    "cancel": "steer",
    "delete": "steer",
    "reschedule": "steer",
    "set-priority": "steer",
    "pause": "pause",
    "resume": "pause",
    "schedules": "schedules",
    "workers": "workers",
    "retention": "retention",
    "prune": "prune",
    "vacuum": "prune",
    "migrate": "migrate",
    "doctor": "doctor",
    "bench": "bench",
    "demo": "demo",
}
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
_WRITING_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Commands(click.Group):
    """Imports a command's module only when it is needed: a worker never pays for the tables of `stats`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"rowcall.cli.commands.{COMMANDS[name]}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        close = difflib.get_close_matches(args[0], COMMANDS, 1) if args[0] not in COMMANDS else []
        if close:
            ctx.fail(f"No such command {args[0]!r}; did you mean {close[0]}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """What the library refuses is wrong use, and is said in the words of the command line."""
        try:
            return super().invoke(ctx)
        except InvalidOption as error:
            name = ctx.invoked_subcommand or ""
            command = self.get_command(ctx, name)
            assert command is not None
            raise click.UsageError(_as_typed(error, command), click.Context(command, ctx, name)) from error

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        extra["standalone_mode"] = False
        _make_writable()
        try:
            code = super().main(args, "rowcall", **extra)
            sys.stdout.flush()
        except Exception as error:
            code = _report(error, sys.argv[1:] if args is None else args)
        sys.exit(code if isinstance(code, int) else 0)


def _as_typed(error: InvalidOption, command: click.Command) -> str:
    typed = f"--{error.option.replace('_', '-')}"
    is_option = any(typed in parameter.opts for parameter in command.params)
    return f"{typed if is_option else error.option}: {error.problem}"


def _report(error: Exception, words: Sequence[str]) -> int:
    """Say what went wrong, in one line; gives the exit code."""

    def say(problem: str, code: int) -> int:
        return _say(printable(_without_secrets(problem, words)), code)

    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return WRONG_USE
        case click.UsageError():
            if error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
            return say(error.format_message(), WRONG_USE)
        case click.ClickException():
            return say(error.format_message(), error.exit_code)
        case click.Abort():
            return INTERRUPTED
        case RowcallError():
            return say(str(error), FAILED)
        case OSError(errno=errno.EPIPE):
            _drop_output()  # whoever read it has gone
            return FAILED
        case OSError(errno=number, filename=None) if number in _WRITING_ERRORS:
            if not _output_can_be_written():
                _drop_output()
            return _say(f"writing failed: {error.strerror}", FAILED)
    raise error


def _without_secrets(problem: str, words: Sequence[str]) -> str:
    """Hide the password of a URL that was typed in the place of something else, too."""
    for word in (*words, os.environ.get("ROWCALL_URL", "")):
        url = word.partition("=")[2] if word.startswith("--") else word
        if looks_secret(url) or ("://" in url and not url.startswith("sqlite:")):
            problem = redacted(problem, url)
    return problem


def _make_writable() -> None:
    """Output that was closed goes nowhere; a letter that its encoding does not have is written as an escape."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open as long as the process lives)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _output_can_be_written() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _drop_output() -> None:
    """What Python flushes at its end goes nowhere, so that it says nothing more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(problem: str, code: int) -> int:
    click.echo(f"{click.style('error:', fg='red', bold=True) if _coloured() else 'error:'} {problem}", err=True)
    return code


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 what was asked for failed, was not found or was answered with no, 2 wrong use,"
    " 130 Ctrl-C.",
)
@click.version_option(package_name="rowcall", prog_name="rowcall")
def main() -> None:
    """Background jobs as rows in the database you already have.

    A command finds its database by APP (module:name of a Rowcall, looked for in the current folder first), by --url, by
    $ROWCALL_URL, or else takes the file rowcall.db. With --json a command prints one JSON object, on one line;
    errors go to standard error in any case.
    """

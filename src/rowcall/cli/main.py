"""`rowcall`: finds the command by its name, and turns errors into one line and an exit code."""

from __future__ import annotations

import errno
import importlib
import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from rowcall.base.text import did_you_mean, printable
from rowcall.base.urls import looks_secret, may_be_url, redacted
from rowcall.domain.errors import InvalidArguments, InvalidOption, RowcallError, about_option

GROUPS = {
    "Run": ("work", "enqueue", "publish", "watch", "dashboard", "mcp", "init", "demo"),
    "Look": (
        *("top", "stats", "jobs", "show", "why", "stack", "stuck", "errors", "retries", "events", "replay"),
        *("tasks", "workers", "schedules", "limits", "batches", "retention"),
    ),
    "Change": (
        *("retry", "cancel", "delete", "reschedule", "set-priority", "edit", "complete", "signal"),
        *("pause", "resume"),
    ),
    "Maintain": (
        *("check", "doctor", "migrate", "prune", "vacuum", "rekey", "move", "export"),
        *("bench", "torture", "completion"),
    ),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)
_MODULES = {
    **dict.fromkeys(("retry", "cancel", "complete", "delete", "edit", "reschedule", "set-priority"), "change_jobs"),
    "resume": "pause",
    "prune": "retention",
    "vacuum": "retention",
}
# of other queues, and of other programs
_SYNONYMS = {"worker": "work", "run": "work", "start": "work", "list": "jobs", "status": "stats", "ui": "dashboard"}
FAILED, WRONG_USE, INTERRUPTED = 1, 2, 130
_WRITING_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Commands(click.Group):
    """Imports the module of a command when it is used, so that a worker does not load the tables of `stats`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                room = formatter.width - 6 - width
                listed = [(name, self.get_command(ctx, name)) for name in names]
                rows = [(name.ljust(width), command.get_short_help_str(room)) for name, command in listed if command]
                formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"rowcall.cli.commands.{_MODULES.get(name, name)}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS:
            ctx.fail(f"unknown command {args[0]!r}{did_you_mean(_SYNONYMS.get(args[0], args[0]), COMMANDS)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Report an option or an argument that the library refuses as wrong use, as it is typed."""
        try:
            return super().invoke(ctx)
        except (InvalidOption, InvalidArguments) as error:
            name = ctx.invoked_subcommand or ""
            command = self.get_command(ctx, name)
            assert command is not None
            said = _as_typed(error, command) if isinstance(error, InvalidOption) else str(error)
            raise click.UsageError(said, click.Context(command, ctx, name)) from error

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
    """Return the error with options as the command has them: `type=…` in Python is `--type` there."""
    options = {option for parameter in command.params for option in parameter.opts}

    def typed(name: str, otherwise: str) -> str:
        option = f"--{name.replace('_', '-')}"
        return option if option in options else otherwise

    problem = re.sub(r"\b(\w+)=(?:…|True)", lambda found: typed(found[1], found[0]), error.problem)
    return about_option(typed(error.option, error.option), problem)


def _report(error: Exception, words: Sequence[str]) -> int:
    """Print the error in one line; return the exit code."""

    def report(problem: str, code: int) -> int:
        return _print_error(printable(_without_secrets(problem, words)), code)

    match error:
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return WRONG_USE
        case click.UsageError():
            if error.ctx is not None:
                click.echo(error.ctx.get_usage(), err=True)
            return report(error.format_message(), WRONG_USE)
        case click.ClickException():
            return report(error.format_message(), error.exit_code)
        case click.Abort():
            return INTERRUPTED
        case RowcallError():
            return report(str(error), FAILED)
        case OSError(errno=errno.EPIPE):
            _drop_output()  # the reader has gone
            return FAILED
        case OSError(errno=number, filename=None) if number in _WRITING_ERRORS:
            if not _output_can_be_written():
                _drop_output()
            return _print_error(f"writing failed: {error.strerror}", FAILED)
    raise error


def _without_secrets(problem: str, words: Sequence[str]) -> str:
    """Hide the password of a URL, even one that was typed in the wrong place."""
    for word in (*words, os.environ.get("ROWCALL_URL", "")):
        url = word.partition("=")[2] if word.startswith("--") else word
        is_web_address = url.startswith(("https://", "http://"))  # of a target, which is not secret as a whole
        if looks_secret(url) or (may_be_url(url) and not is_web_address):
            problem = redacted(problem, url)
    return problem


def _make_writable() -> None:
    """Discard output that was closed; escape letters that its encoding does not have."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (open until the process ends)
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _output_can_be_written() -> bool:
    try:
        sys.stdout.flush()
    except OSError:
        return False
    return True


def _drop_output() -> None:
    """Discard what Python flushes when it ends, so that it prints no error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _print_error(problem: str, code: int) -> int:
    click.echo(f"{click.style('error:', fg='red', bold=True) if _coloured() else 'error:'} {problem}", err=True)
    return code


def _coloured() -> bool:
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR")


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done, 1 failed or not found, 2 wrong use, 130 interrupted (Ctrl-C).",
)
@click.version_option(package_name="rowcall", prog_name="rowcall")
def main() -> None:
    """Background jobs as rows in the database you already have.

    A command finds its database by APP (module:name of a Rowcall, imported from the current folder first), by --url, or
    by $ROWCALL_URL; otherwise it uses the file rowcall.db. With --json it prints one JSON object on one line. Errors go
    to standard error.
    """

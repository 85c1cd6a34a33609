"""`rowcall dashboard`: the dashboard and the JSON API on a port of this machine."""

from __future__ import annotations

import importlib
import os
import socket

import click

from rowcall.cli.present import log
from rowcall.cli.target import existing, find
from rowcall.domain.config import URL_FORMS
from rowcall.domain.errors import InvalidOption
from rowcall.http.server_options import HttpSettings, settings
from rowcall.queue import Queue

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642


@click.command("dashboard", short_help="Serve the dashboard and the JSON API.")
@click.argument("app", metavar="[APP]", required=False)
@click.option("--url", metavar="URL", help=f"Database: {URL_FORMS}.")
@click.option("--host", metavar="HOST", default=DEFAULT_HOST, show_default=True, help="Address to listen at.")
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port; 0 chooses a free one.",
)
@click.option(
    "--root-path", metavar="PREFIX", default="", help="Prefix that a proxy in front serves it under, and removes."
)
@click.option("--allow-host", metavar="NAME", multiple=True, help="Host name to answer to; may be given several times.")
@click.option("--trace-url", metavar="URL", help="Link of a job to its trace: https://traces.example.com/{trace_id}.")
def dashboard_command(
    app: str | None,
    url: str | None,
    host: str,
    port: int,
    root_path: str,
    allow_host: tuple[str, ...],
    trace_url: str | None,
) -> None:
    """Serve the dashboard and the JSON API until SIGINT or SIGTERM.

    On 127.0.0.1 no one has to sign in. Any other address needs a token: $ROWCALL_DASHBOARD_TOKEN allows everything,
    $ROWCALL_DASHBOARD_READ_TOKEN only reading.

    \b
        rowcall dashboard app:jobs
    """
    require_http()
    target = find(app, url) if app is not None else existing(None, url)
    with target.jobs:
        log.set_up("info")
        tokens = {name: os.environ.get(f"ROWCALL_DASHBOARD_{name.upper()}") or None for name in ("token", "read_token")}
        options = settings(
            token=tokens["token"], read_token=tokens["read_token"], hosts=allow_host or None, trace_url=trace_url
        )
        serve(target.queue, options, host, port, root_path.rstrip("/"))


def require_http() -> None:
    """Raise an error that says how to install what the dashboard needs, unless it is installed."""
    try:
        importlib.import_module("rowcall.http.serve")
    except ModuleNotFoundError as error:
        raise click.ClickException(f"the dashboard needs {error.name}: pip install 'rowcall[http]'") from None


def can_serve() -> bool:
    """Return whether what the dashboard needs is installed."""
    try:
        require_http()
    except click.ClickException:
        return False
    return True


def serve(queue: Queue, settings: HttpSettings, host: str, port: int, root_path: str = "") -> None:
    """Serve the dashboard until SIGINT or SIGTERM, and say where."""
    from rowcall.http.serve import server_of

    server = server_of(queue, settings, host, port, root_path)
    listener = _listener(host, port)
    shown = f"[{host}]" if ":" in host else host
    click.echo(f"dashboard of {queue.database.name} at http://{shown}:{listener.getsockname()[1]}/", err=True)
    server.run(sockets=[listener])


def _listener(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen()  # from now on, no client is refused
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidOption("port", f"cannot listen at {host}:{port}: {reason}") from None
    return listener

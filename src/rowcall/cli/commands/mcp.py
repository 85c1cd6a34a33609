"""`rowcall mcp`: serve a queue to an assistant, over standard input and output."""

from __future__ import annotations

import click

from rowcall.cli.present import log
from rowcall.cli.target import existing
from rowcall.domain.config import URL_FORMS
from rowcall.observe.optional_libraries import missing


@click.command("mcp", short_help="Let an assistant look at a queue (Model Context Protocol).")
@click.argument("app", metavar="[APP]", required=False)
@click.option("--url", metavar="URL", help=f"Database: {URL_FORMS}.")
@click.option("--allow-changes", is_flag=True, help="Also offer changes, each in two calls: show, then confirm.")
def mcp_command(app: str | None, url: str | None, allow_changes: bool) -> None:
    """Serve a queue to an assistant with the Model Context Protocol, over standard input and output.

    The tools only look, unless --allow-changes is given. Texts and arguments of jobs pass the app's scrubber.
    """
    try:
        from rowcall.cli.mcp.assistant_server import assistant_server
    except ModuleNotFoundError as error:
        raise missing("mcp", "mcp", error) from None
    target = existing(app, url)
    with target.jobs:
        log.set_up("warning")
        assistant_server(target, allow_changes=allow_changes).run("stdio")

"""`rowcall migrate`: make or update the tables."""

from __future__ import annotations

import click

from rowcall.cli.present.output import print_json
from rowcall.cli.target import app_argument, find, json_option, queue_of, url_option


@click.command("migrate")
@app_argument
@url_option
@json_option
def migrate_command(app: str | None, url: str | None, as_json: bool) -> None:
    """Make the tables, or bring them to this version. Makes a file if there is none, but no database on a server.

    With --json: {"path", "from", "to"}: the file, or the URL without its password, and the versions before and now.
    """
    with find(app, url) as jobs:
        found, now = jobs.migrate()
        path = queue_of(jobs).database.name
    if as_json:
        print_json({"path": path, "from": found, "to": now})
    elif found == now:
        click.echo(f"{path}: the tables are at version {now} already")
    elif found == 0:
        click.echo(f"{path}: the tables were made, at version {now}")
    else:
        click.echo(f"{path}: the tables went from version {found} to version {now}")

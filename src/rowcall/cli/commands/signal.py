"""`rowcall signal`: send a signal to a job whose handler waits for it."""

from __future__ import annotations

import click
import msgspec

from rowcall.base.text import one_line
from rowcall.cli.command import NOT_JSON, Answer, job_ids, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.operations.signals import meant


def _job_name_and_value(words: tuple[str, ...]) -> tuple[int, str, object]:
    if not 2 <= len(words) <= 3:
        raise click.UsageError("give a job id, the name of the signal, and perhaps its value as JSON")
    (job_id,) = job_ids(words[:1])
    try:
        value = msgspec.json.decode(words[2]) if len(words) == 3 else None
    except NOT_JSON:
        raise click.BadParameter(f"{words[2][:80]!r} is not JSON; write a text as '\"text\"'") from None
    return job_id, words[1], value


@queue_command(
    "signal",
    "Send a signal to a job whose handler waits for it.",
    words="ID NAME [JSON]",
    parse=_job_name_and_value,
)
@click.option("--key", metavar="KEY", help="Received once, however often a signal with this key is sent.")
def signal_command(target: Target, words: tuple[int, str, object], key: str | None) -> Answer:
    """Send a signal to a job whose handler waits for it with ctx.wait_for(NAME), now or later.

    The value is JSON: rowcall signal app:jobs 12 confirmed '{"by": "ann"}'

    With --json: {"job_id", "name", "value"}.
    """
    job_id, name, value = words
    to, sent = target.queue.run(meant(target.queue, job_id, name, value))
    target.jobs.signal(job_id, to, sent, key=key)
    data = {"job_id": job_id, "name": name, "value": value}
    return Answer(data, lambda: show(one_line(f"job {job_id}: sent signal {name}")))

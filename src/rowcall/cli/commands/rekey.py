"""`rowcall rekey`: encrypt the rows of all jobs with the first key."""

from __future__ import annotations

from rowcall.cli.command import Answer, queue_command
from rowcall.cli.present.console import show
from rowcall.cli.target import Target
from rowcall.domain.job import Rekeyed
from rowcall.overview.formats import counted


@queue_command("rekey", "Encrypt all jobs with the first key.")
def rekey_command(target: Target) -> Answer:
    """Encrypt with the first key what other keys encrypted, and what was written before there was a key.

    The keys are those of APP, or in $ROWCALL_ENCRYPTION_KEYS, separated by commas. It works in small batches
    while workers run. After Ctrl-C, run it again for the rest. When it has ended without unreadable rows, older keys
    are not needed any more.

    With --json: {"checked", "rekeyed", "unreadable"}, numbers of rows.
    """
    done = target.jobs.rekey()
    return Answer(done, lambda: show(_said(done)), ok=not done.unreadable)


def _said(done: Rekeyed) -> str:
    """
    >>> _said(Rekeyed(checked=1200, rekeyed=7, unreadable=1))
    'checked 1,200 rows, encrypted 7 rows again; 1 row cannot be decrypted with these keys'
    """
    said = f"checked {counted(done.checked, 'row')}, encrypted {counted(done.rekeyed, 'row')} again"
    return f"{said}; {counted(done.unreadable, 'row')} cannot be decrypted with these keys" if done.unreadable else said

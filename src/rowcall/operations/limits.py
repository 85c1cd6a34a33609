"""Publish the limits that this process declares."""

from __future__ import annotations

from rowcall.operations.steps import Read, Write
from rowcall.queue import Queue
from rowcall.store.limits.admission import put_quotas, quotas


def publish_limits(queue: Queue) -> None:
    """Write the numbers of the limits declared here. The last process that declares a limit decides them."""
    declared = queue.limits.numbers
    if not declared:
        return
    known = queue.run(Read(quotas(queue.dialect)))
    changed = {name: numbers for name, numbers in declared.items() if known.get(name) != numbers}
    if changed:
        queue.run(Write(put_quotas, queue.dialect, changed))

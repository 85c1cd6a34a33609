"""Limits are published by the processes that declare them."""

from __future__ import annotations

from rowcall.queue import Queue
from rowcall.store.limits.keys import put_quotas, quotas


def publish_limits(core: Queue) -> None:
    """Tell all processes what this one declares. The last one to declare a limit decides its numbers."""
    declared = core.limits.numbers
    if not declared:
        return
    known = core.read(quotas(core.dialect))
    changed = {name: numbers for name, numbers in declared.items() if known.get(name) != numbers}
    if changed:
        core.write(lambda: put_quotas(core.dialect, changed))

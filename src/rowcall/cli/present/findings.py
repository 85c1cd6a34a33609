"""What needs attention, as commands show it."""

from __future__ import annotations

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding

from rowcall.cli.present.text_tables import has_unicode, text
from rowcall.cli.target import Target
from rowcall.domain.attention import Finding, Severity
from rowcall.overview.scrub import scrubbed

STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow"}


def findings(target: Target) -> list[Finding]:
    """Return what needs attention, as it may be shown, with commands about this queue."""
    failures = target.queue.declared.failures
    return [
        msgspec.structs.replace(scrubbed(failures, one), advice=target.typed(one.advice))
        for one in target.jobs.attention()
    ]


def attention_text(listed: list[Finding], most: int) -> Group:
    """Return a line for each finding and one for its advice; of more than `most`, how many there are."""
    arrow = "→" if has_unicode() else "->"
    lines: list[RenderableType] = []
    for finding in listed[:most]:
        line = text(finding.severity, STYLES[finding.severity])
        line.append_text(text(f"  {finding.message}", "bold" if finding.severity is Severity.CRITICAL else ""))
        lines += [line, Padding(text(f"{arrow} {finding.advice}", "dim"), (0, 0, 0, 2))]
    if len(listed) > most:
        lines.append(text(f"and {len(listed) - most} more: rowcall doctor", "dim"))
    return Group(*lines)

"""What needs attention, as commands show it."""

from __future__ import annotations

import msgspec
from rich.console import Group, RenderableType
from rich.padding import Padding

from rowcall.cli.present.text_tables import has_unicode, text
from rowcall.cli.target import Target
from rowcall.domain.attention import Finding, Severity
from rowcall.overview.formats import steps_of
from rowcall.overview.scrub import scrubbed

STYLES = {Severity.CRITICAL: "bold red", Severity.WARNING: "yellow"}


def findings(target: Target) -> list[Finding]:
    """Return what needs attention, as it may be shown, with commands about this queue."""
    failures = target.queue.declared.failures
    return [
        msgspec.structs.replace(scrubbed(failures, one), advice=target.typed(one.advice))
        for one in target.jobs.attention()
    ]


def advice_lines(advice: str) -> list[str]:
    """Return what to do, one thing in each line."""
    arrow = "→" if has_unicode() else "->"
    return [f"{arrow} {words}{command}" for words, command in steps_of(advice)]


def attention_text(listed: list[Finding], most: int, advised: int) -> Group:
    """Return the findings, the first `advised` with what to do; of more than `most`, how many there are.

    Others are one line each, shortened if the terminal is narrow.
    """
    lines: list[RenderableType] = []
    for number, finding in enumerate(listed[:most]):
        line = text(finding.severity, STYLES[finding.severity])
        line.append_text(text(f"  {finding.message}", "bold" if finding.severity is Severity.CRITICAL else ""))
        lines.append(line)
        if number < advised:
            lines += [Padding(text(step, "dim"), (0, 0, 0, 2)) for step in advice_lines(finding.advice)]
        else:
            line.no_wrap, line.overflow = True, "ellipsis"
    if len(listed) > most:
        lines.append(text(f"and {len(listed) - most} more: rowcall doctor", "dim"))
    return Group(*lines)

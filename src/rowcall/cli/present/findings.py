"""What needs attention, as commands show it."""

from __future__ import annotations

import msgspec
from rich.text import Text

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


def attention_text(found: list[Finding], most: int) -> Text:
    """Return a line for each finding and one for its advice; of more than `most`, how many there are."""
    if not found:
        return text("nothing needs attention", "green")
    arrow = "→" if has_unicode() else "->"
    lines: list[Text] = []
    for one in found[:most]:
        line = text(one.severity, STYLES[one.severity])
        line.append_text(text(f"  {one.message}", "bold" if one.severity is Severity.CRITICAL else ""))
        lines += [line, text(f"  {arrow} {one.advice}", "dim")]
    if len(found) > most:
        lines.append(text(f"and {len(found) - most} more: rowcall doctor", "dim"))
    return Text("\n").join(lines)

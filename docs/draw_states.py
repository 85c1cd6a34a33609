"""Draw the state diagram of docs/tables.md from the table in rowcall.domain.lifecycle: `make docs`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rowcall.domain.job import FINISHED, Status
from rowcall.domain.lifecycle import TABLE, Move, Rule

PAGE = Path(__file__).with_name("tables.md")
BEGIN = "<!-- drawn from rowcall.domain.lifecycle by docs/draw_states.py; `make docs` draws it again -->"
END = "<!-- end of the drawing -->"


def diagram(rules: Iterable[Rule]) -> str:
    """A Mermaid state diagram: one arrow for each pair of states, with all the moves that take it."""
    moves: dict[tuple[Status | None, Status], list[str]] = {}
    for rule in rules:
        if rule.target is not None:
            moves.setdefault((rule.source, rule.target), []).append(rule.move)
    arrows = [f"    {_name(source)} --> {target}: {', '.join(by)}" for (source, target), by in moves.items()]
    ends = [f"    {status} --> [*]" for status in FINISHED]
    return "\n".join(["```mermaid", "stateDiagram-v2", *arrows, *ends, "```"])


def table(rules: Iterable[Rule]) -> str:
    """Every move, from where, and to where."""
    lines = ["| move | from | to |", "| --- | --- | --- |"]
    by_move: dict[tuple[Move, Status | None], list[str]] = {}
    for rule in rules:
        by_move.setdefault((rule.move, rule.target), []).append(rule.source or "(new)")
    for (move, target), sources in by_move.items():
        lines.append(f"| {move} | {', '.join(sources)} | {target or '(gone)'} |")
    return "\n".join(lines)


def drawn(page: str) -> str:
    """Return the page with a new drawing."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has lost the lines that mark its drawing: {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{diagram(TABLE)}\n\n{table(TABLE)}\n\n{END}{after}"


def _name(source: Status | None) -> str:
    return "[*]" if source is None else source.value


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text()))
    print(f"{PAGE.name} is drawn")

"""Which groups an index has, learned by hopping from one to the next, however many jobs are in each."""

from __future__ import annotations

from collections.abc import Sequence

from rowcall.store.sources import Source


def name_of(column: str) -> str:
    return column.removesuffix(" desc")


def groups_of(source: Source) -> str:
    """The distinct values of an index's first columns, by as many searches as there are groups."""
    names = [name_of(column) for column in source.columns]
    entry = f"<job> indexed by <prefix>job_{source.name} where {source.proof}"
    hops = [
        f"(select rowid from {entry} {_after(source.columns, length)} order by {', '.join(source.columns)} limit 1)"
        for length in reversed(range(len(names)))
    ]
    shown = ", ".join(names)
    # no name is empty; searched for, the index is not read whole where an old ANALYZE found it empty
    first = f"{entry} and {names[0]} > ''"
    return f"""
        with recursive found ({shown}) as (
          select * from (select {shown} from {first} order by {", ".join(source.columns)} limit 1)
          union all
          select {", ".join(f"next.{name}" for name in names)} from found cross join <job> as next
          on next.rowid = coalesce({", ".join(hops)})
        )
        select {shown} from found"""


def _after(columns: Sequence[str], length: int) -> str:
    """Equal in the first columns, and further in the next."""
    equal = [f"and {name_of(column)} = found.{name_of(column)}" for column in columns[:length]]
    sign = "<" if columns[length].endswith(" desc") else ">"
    return " ".join([*equal, f"and {name_of(columns[length])} {sign} found.{name_of(columns[length])}"])

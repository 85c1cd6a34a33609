"""Texts about what the HTTP API remembers until a time."""

from __future__ import annotations

from rowcall.store.mysql.words import in_two

# one row is inserted, two are for a change
_IS_MINE = "select $2 where row_count() > 0"
write_note = (
    """
    insert into <note> (name, until, value) values ($2, <now> + <interval:3>, $4)
    on duplicate key update value = case when until <= <now> then values(value) else value end,
      until = case when until <= <now> then values(until) else until end""",
    _IS_MINE,
)
prune_notes = in_two("""
    delete whole from <note> as whole join (
      select name from <note> where until <= <now> limit $2 for update skip locked
    ) as chosen on chosen.name = whole.name""")

"""The privileges that a user needs who enqueues and works, but does not own the tables."""

from __future__ import annotations

import re
from typing import NamedTuple

from rowcall.store.postgres.schema import CODE, MIGRATIONS

_MADE = re.compile(r"\s*create (?:unlogged )?(table|view|sequence) <(?:prefix>(\w+)|(\w+)>)")
_OF_KIND = {"table": "SELECT, INSERT, UPDATE, DELETE", "view": "SELECT", "sequence": "USAGE"}


class Needed(NamedTuple):
    """Privileges on an object, whose name is given without the prefix."""

    kind: str
    name: str
    privileges: str


_NUMBERED_BY_US = ("job",)
"""Tables whose next id is also taken by statements, which needs a privilege on the sequence."""

NEEDED = (
    *(
        Needed(made[1], made[2] or made[3], _OF_KIND[made[1]])
        for statement in (*(text for one in MIGRATIONS for text in one.statements), *(part.create for part in CODE))
        if (made := _MADE.match(statement))
    ),
    Needed("table", "migration", "SELECT"),
    *(Needed("sequence", f"{table}_id_seq", "USAGE") for table in _NUMBERED_BY_US),
)
"""Read from the schema, so that no object is forgotten."""


def grants(user: str, prefix: str) -> list[str]:
    """Return the statements that the owner of the tables runs."""
    objects: dict[tuple[str, str], list[str]] = {}
    for kind, name, privileges in NEEDED:
        objects.setdefault((privileges, "SEQUENCE " if kind == "sequence" else ""), []).append(f"{prefix}{name}")
    return [f"GRANT {privileges} ON {kind}{', '.join(on)} TO {user}" for (privileges, kind), on in objects.items()]

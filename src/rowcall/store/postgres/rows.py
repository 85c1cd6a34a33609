"""Rows of the statements that only PostgreSQL has in this shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import msgspec

from rowcall.store.dialect import Inserted, Owned, Peer, Ready, Survey
from rowcall.store.statement import Row

_peers = msgspec.json.Decoder(list[tuple[str, str, int, int, str | None]])


def ready_from_row(row: Row) -> Ready:
    return Ready(*row)  # type: ignore[arg-type]


def owned_from_row(row: Row) -> Owned:
    return Owned(*row)  # type: ignore[arg-type]


def inserted_many_from_row(row: Row) -> list[Inserted]:
    ids, status, run_at, created_at, expires_at, _ = cast("tuple[str, str, int, int, int | None, bool]", row)
    return [Inserted(int(job_id), status, run_at, created_at, expires_at) for job_id in ids.split(",")]


def survey_from_row(row: Row) -> Survey:
    peers, any_lease_expired, any_orphan = cast("tuple[str, bool, bool]", row)
    return Survey([Peer(*peer) for peer in _peers.decode(peers)], any_lease_expired, any_orphan)


def somebody_listens(found: list[Row]) -> bool:
    return bool(found[0][-1])


def array(numbers: Sequence[int]) -> str:
    """Numbers as PostgreSQL writes an array of them: text that any driver can send.

    >>> array([1, 2, 3])
    '{1,2,3}'
    """
    return "{" + ",".join(map(str, numbers)) + "}"

"""Rows about edges, chains and keys to values: most come as one JSON array."""

from __future__ import annotations

from typing import cast

import msgspec

from rowcall.base.times import time_of, time_or_none
from rowcall.domain.job import Chain, Status
from rowcall.domain.payload import value_from_row
from rowcall.store.columns import milliseconds, text
from rowcall.store.dialect import Inserted
from rowcall.store.flows.contract import Blocker, BlockerResult, EndedEdge, Holder, Standing, Touched, UnsureEdge
from rowcall.store.statement import Row

_inserted = msgspec.json.Decoder(list[tuple[int, str, int, int, int | None]])
_standing = msgspec.json.Decoder(list[tuple[int, int, str, str, int]])
_ended = msgspec.json.Decoder(list[EndedEdge])
_unsure = msgspec.json.Decoder(list[UnsureEdge])
_touched = msgspec.json.Decoder(list[Touched])
_one_touched = msgspec.json.Decoder(Touched)
_holders = msgspec.json.Decoder(list[Holder])
_ids = msgspec.json.Decoder(list[int])
_pairs = msgspec.json.Decoder(list[tuple[int, int]])


def _text(row: Row) -> str:
    return cast("str", row[0])


def inserted(row: Row) -> list[Inserted]:
    return [Inserted(*fields) for fields in _inserted.decode(_text(row))]


def standing(row: Row) -> dict[Blocker, Standing]:
    found = _standing.decode(_text(row))
    return {Blocker(job_id, bool(of_chain)): Standing(status, kind, at) for job_id, of_chain, status, kind, at in found}


def ended(row: Row) -> list[EndedEdge]:
    return _ended.decode(_text(row))


def unsure(row: Row) -> list[UnsureEdge]:
    return _unsure.decode(_text(row))


def touched(row: Row) -> list[Touched]:
    return _touched.decode(_text(row))


def one_touched(row: Row) -> Touched:
    return _one_touched.decode(_text(row))


def holders(row: Row) -> list[Holder]:
    return _holders.decode(_text(row))


def ids(row: Row) -> list[int]:
    return _ids.decode(_text(row))


def pairs(row: Row) -> list[tuple[int, int]]:
    return _pairs.decode(_text(row))


def locked(row: Row) -> tuple[int, tuple[str, str | None]]:
    job_id, status, error_code = cast("tuple[int, str, str | None]", row)
    return job_id, (status, error_code)


def blocker_result(row: Row) -> BlockerResult:
    place, status, result, blocker_id, of_chain, state = cast("tuple[int, str | None, object, int, int, str]", row)
    return BlockerResult(place, status, text(result), blocker_id, of_chain, state)


def text_or_none(row: Row) -> str | None:
    return text(row[0])


def chain(row: Row) -> Chain:
    chain_id, kind, queue, status, length, current, created_at, finished_at, result, error_code, error_detail = row
    ended = Status(cast("str", status)) in (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)
    return Chain(
        id=cast("int", chain_id),
        type=cast("str", kind),
        queue=cast("str", queue),
        status=Status(cast("str", status)),
        length=cast("int", length),
        current=cast("int", current),
        created_at=time_of(cast("int", created_at)),
        finished_at=time_or_none(milliseconds(finished_at)) if ended else None,
        result=value_from_row(text(result)) if ended else None,
        error_code=text(error_code) if ended else None,
        error_detail=text(error_detail) if ended else None,
    )

"""Which jobs need which blobs, as every database is asked alike: only the words of the statements differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rowcall.domain.blobs import Reference
from rowcall.store import rows
from rowcall.store.dialect import Pin
from rowcall.store.speech import as_json, plain
from rowcall.store.statement import Plan, Statement, execute, fetch


class BlobStatements(Protocol):
    blob_pins: str
    jobs_referring: str
    pin_blobs: str
    refer_to_blobs: str
    unpin_blobs: str
    unreferred_blobs: str


class SpokenBlobs:
    _blobs: BlobStatements

    def refer_to_blobs(self, references: Sequence[tuple[str, int]]) -> Plan[None]:
        return execute(plain(self._blobs.refer_to_blobs, as_json(references)))

    def pin_blobs(self, token: str, references: Sequence[Reference]) -> Plan[None]:
        pinned = {reference.digest: reference.text for reference in references}
        return execute(plain(self._blobs.pin_blobs, token, as_json(list(pinned.items()))))

    def unpin_blobs(self, token: str) -> Plan[None]:
        return execute(plain(self._blobs.unpin_blobs, token))

    def blob_pins(self, digests: Sequence[str]) -> Plan[list[Pin]]:
        return fetch(Statement(self._blobs.blob_pins, (as_json(digests),), rows.pin_from_row))

    def jobs_referring(self, reference: str) -> Plan[list[int]]:
        return fetch(Statement(self._blobs.jobs_referring, (reference,), rows.number_from_row))

    def unreferred_blobs(self, digests: Sequence[str]) -> Plan[list[str]]:
        return fetch(Statement(self._blobs.unreferred_blobs, (as_json(digests),), rows.text_from_row))

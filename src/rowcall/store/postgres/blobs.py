"""The table of blobs, where they are kept on the server: for our own connections alone."""

from __future__ import annotations

from base64 import b64encode

from rowcall.store import rows
from rowcall.store.postgres.blobs_sql import BlobsSql
from rowcall.store.speech import plain
from rowcall.store.spoken_blobs import SpokenBlobs
from rowcall.store.statement import Plan, Statement, execute, fetch, first


class PostgresBlobs(SpokenBlobs):
    _blobs: BlobsSql

    def put_blob(self, digest: str, data: bytes, now_ms: int | None) -> Plan[None]:
        """Written once: one that is there is only touched, and need not be sent."""
        if not (yield from fetch(plain(self._blobs.touch_blob, now_ms, digest))):
            yield from execute(plain(self._blobs.put_blob, now_ms, digest, b64encode(data).decode()))

    def get_blob(self, digest: str) -> Plan[bytes | None]:
        return first(Statement(self._blobs.get_blob, (digest,), rows.bytes_from_row))

    def old_blobs(self, older_than_seconds: float, after: str, limit: int, now_ms: int | None) -> Plan[list[str]]:
        parameters = (now_ms, older_than_seconds, after, limit)
        return fetch(Statement(self._blobs.old_blobs, parameters, rows.text_from_row))

    def delete_blob(self, digest: str, older_than_seconds: float, now_ms: int | None) -> Plan[None]:
        return execute(plain(self._blobs.delete_blob, now_ms, digest, older_than_seconds))

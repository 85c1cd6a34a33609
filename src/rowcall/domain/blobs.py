"""Blob stores for large arguments and results, and the references to them in rows.

Write a class with the four methods of `BlobStore` to store them elsewhere: `Rowcall(blobs=MyStore())`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Protocol

import msgspec

from rowcall.domain.errors import BlobDamaged, BlobMissing

MARK = "__rowcall_"
"""The names that begin so are not those of arguments."""
BLOB_KEY, ENCRYPTED_KEY, REFUSED_KEY = f"{MARK}blob__", f"{MARK}encrypted__", f"{MARK}refused__"
RESERVED = (BLOB_KEY, ENCRYPTED_KEY, REFUSED_KEY)
TOO_LARGE_CODE = "INVALID_OUTPUT:TOO_LARGE"

_SCHEME = "sha256:"
_SHORTEST, _LONGEST = 100, 160  # of a reference, as any database writes it


class BlobStore(Protocol):
    """Stores bytes under their digest, 64 hexadecimal digits that identify the content.

    It is called from many threads and processes. An exception fails the call or the attempt that needed the blob.
    """

    def put(self, digest: str, data: bytes) -> None:
        """Store the data durably. If the digest is already stored, renew its time."""

    def get(self, digest: str) -> bytes:
        """Return the data, or raise `KeyError`. Rowcall compares it with the digest."""

    def digests(self, older_than_seconds: float) -> Iterable[str]:
        """Return the digests that were last put longer ago than that, in any order."""

    def delete(self, digest: str, older_than_seconds: float) -> None:
        """Delete the data, unless it was put again since then. A missing digest is not an error."""


class Reference(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"address": BLOB_KEY}, kw_only=True, gc=False
):
    """What a row contains instead of a large payload or result."""

    address: Annotated[str, msgspec.Meta(pattern=rf"\A{_SCHEME}[0-9a-f]{{64}}\Z")]
    size: Annotated[int, msgspec.Meta(ge=0)]

    @property
    def digest(self) -> str:
        return self.address.removeprefix(_SCHEME)

    @property
    def text(self) -> str:
        return msgspec.json.encode(self).decode()


_decoder = msgspec.json.Decoder(Reference)


def refer(data: bytes) -> Reference:
    """
    >>> refer(b"{}").text
    '{"__rowcall_blob__":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2}'
    """
    return Reference(address=_SCHEME + hashlib.sha256(data).hexdigest(), size=len(data))


def reference_of(text: str | None) -> Reference | None:
    """Return the reference in the text of a payload or result, or None."""
    if text is None or not _SHORTEST <= len(text) <= _LONGEST or BLOB_KEY not in text:
        return None
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:  # plain SQL may have written anything
        return None


def reference_in(value: object) -> Reference | None:
    """Return the reference in a decoded payload or result, or None."""
    if not isinstance(value, dict) or BLOB_KEY not in value:
        return None
    try:
        return msgspec.convert(value, Reference)
    except msgspec.MsgspecError:
        return None


def read(store: BlobStore, reference: Reference) -> str:
    """Return the text that was stored, or raise `BlobUnreadable`."""
    digest = reference.digest
    try:
        data = store.get(digest)
    except KeyError:
        raise BlobMissing(f"blob {digest} is not in the blob store") from None
    if len(data) != reference.size:
        raise BlobDamaged(f"blob {digest} was changed: {reference.size} bytes were stored, got {len(data)}")
    if hashlib.sha256(data).hexdigest() != digest:
        raise BlobDamaged(f"blob {digest} was changed: its content differs")
    return data.decode()

"""Where large arguments and results are kept, and how a row refers to them.

Write a class with the four methods of `BlobStore` to keep them in a place of your own: `Rowcall(blobs=MyStore())`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Annotated, Protocol

import msgspec

from rowcall.domain.errors import BlobDamaged, BlobMissing

BLOB_KEY = "__rowcall_blob__"
TOO_LARGE_CODE = "INVALID_OUTPUT:TOO_LARGE"

_SCHEME = "sha256:"
_SHORTEST, _LONGEST = 100, 160  # of a reference, as any database writes it


class BlobStore(Protocol):
    """Keeps bytes under their digest: 64 hexadecimal digits, which name this content and no other.

    Called from many threads and processes at once. What it raises fails the call or the attempt that needed it.
    """

    def put(self, digest: str, data: bytes) -> None:
        """Keep the data; it is safe when this returns. One that is there already counts as put now."""

    def get(self, digest: str) -> bytes:
        """The data; `KeyError` where there is none. Rowcall compares it with the digest."""

    def digests(self, older_than_seconds: float) -> Iterable[str]:
        """Those that were last put longer ago than that, in any order."""

    def delete(self, digest: str, older_than_seconds: float) -> None:
        """Remove it, unless it was put again since then; one that is not there is no error."""


class Reference(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"address": BLOB_KEY}, kw_only=True, gc=False
):
    """What a row holds in place of a large payload or result."""

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
    """The reference that a payload or a result is, if it is one."""
    if text is None or not _SHORTEST <= len(text) <= _LONGEST or BLOB_KEY not in text:
        return None
    try:
        return _decoder.decode(text)
    except msgspec.MsgspecError:  # plain SQL may have written anything
        return None


def reference_in(value: object) -> Reference | None:
    """`reference_of`, for a value that was read from its text."""
    if not isinstance(value, dict) or BLOB_KEY not in value:
        return None
    try:
        return msgspec.convert(value, Reference)
    except msgspec.MsgspecError:
        return None


def read(store: BlobStore, reference: Reference) -> str:
    """The text that was put; `BlobUnreadable` where it is missing or not the same any more."""
    digest = reference.digest
    try:
        data = store.get(digest)
    except KeyError:
        raise BlobMissing(f"the blob {digest} is not in its store") from None
    if len(data) != reference.size or hashlib.sha256(data).hexdigest() != digest:
        detail = f"the blob {digest} has {len(data)} bytes, and they are not the {reference.size} that were put there"
        raise BlobDamaged(detail)
    return data.decode()

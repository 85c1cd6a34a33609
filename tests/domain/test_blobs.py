"""References to blobs, and blobs that are missing or changed."""

from __future__ import annotations

import pytest

from rowcall import BlobDamaged, BlobMissing
from rowcall.domain.blobs import BLOB_KEY, read, refer, reference_in, reference_of


class Shelf(dict[str, bytes]):
    def put(self, digest: str, data: bytes) -> None:
        self[digest] = data

    def get(self, digest: str) -> bytes:  # type: ignore[override]
        return self[digest]

    def digests(self, older_than_seconds: float) -> list[str]:
        return list(self)

    def delete(self, digest: str, older_than_seconds: float) -> None:
        self.pop(digest, None)


DATA = b'{"text":"\xc3\xa4"}'
REFERENCE = refer(DATA)


def test_a_reference_is_found_in_its_text_and_in_its_value() -> None:
    spaced = REFERENCE.text.replace(":", ": ").replace(",", ", ").replace("sha256: ", "sha256:")
    assert reference_of(REFERENCE.text) == reference_of(spaced) == REFERENCE
    assert reference_in({BLOB_KEY: REFERENCE.address, "size": REFERENCE.size}) == REFERENCE


@pytest.mark.parametrize("text", [None, "{}", REFERENCE.text[:-1], REFERENCE.text.replace("sha256", "sha512")])
def test_anything_else_is_not_a_reference(text: str | None) -> None:
    assert reference_of(text) is None


@pytest.mark.parametrize("value", [None, [], {BLOB_KEY: "x", "size": 2}, {BLOB_KEY: REFERENCE.address}])
def test_another_value_is_not_a_reference(value: object) -> None:
    assert reference_in(value) is None


def test_a_blob_is_read_and_compared_with_its_digest() -> None:
    shelf = Shelf({REFERENCE.digest: DATA})
    assert read(shelf, REFERENCE) == DATA.decode()
    shelf[REFERENCE.digest] = b"other"
    with pytest.raises(BlobDamaged, match=rf"blob {REFERENCE.digest} was changed: 13 bytes were stored, got 5"):
        read(shelf, REFERENCE)
    with pytest.raises(BlobMissing, match=rf"blob {REFERENCE.digest} is not in the blob store"):
        read(Shelf(), REFERENCE)

"""Texts that every database takes, and no longer than they should be."""

from __future__ import annotations

CODE_LENGTH = 100
DETAIL_LENGTH = 500
_MARK = " … "


def storable(text: str, length: int) -> str:
    """No NUL, no half of a surrogate pair, cut in the middle where it is too long.

    >>> storable("a\\0b", 10), storable("0123456789", 7)
    ('a\ufffdb', '01 … 89')
    """
    text = text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()
    if len(text) <= length:
        return text
    head = (length - len(_MARK)) // 2
    return text[:head] + _MARK + text[len(text) - (length - len(_MARK) - head) :]

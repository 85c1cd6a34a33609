"""Refuses to start a worker while a child process imports the app: a script could start workers without end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_is_importing = False


@contextmanager
def importing() -> Iterator[None]:
    global _is_importing
    _is_importing = True
    try:
        yield
    finally:
        _is_importing = False


def refuse_while_importing() -> None:
    if _is_importing:
        raise RuntimeError(
            "a worker was started while a child process imported this module: "
            'put what starts it under `if __name__ == "__main__":`'
        )

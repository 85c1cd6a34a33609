"""Whether this process is a worker's child that imports the app: a script that starts workers must not do so then."""

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

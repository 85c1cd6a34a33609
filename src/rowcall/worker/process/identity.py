"""The names of workers."""

from __future__ import annotations

import os
import secrets
import socket


def host_name() -> str:
    return socket.gethostname() or "localhost"


def worker_name() -> str:
    """`web-1:4242:9f3c01`: host, process, and a part that no other worker of that process has."""
    return f"{host_name()}:{os.getpid()}:{secrets.token_hex(3)}"

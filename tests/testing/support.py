"""What the tests of servers ask a server."""

from __future__ import annotations

import socket

import psycopg


def ask(url: str, question: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


def port_of(url: str) -> int:
    return int(psycopg.conninfo.conninfo_to_dict(url)["port"] or 0)


def port_is_closed(url: str) -> bool:
    with socket.socket() as knocking:
        return knocking.connect_ex(("127.0.0.1", port_of(url))) != 0

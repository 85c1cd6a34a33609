"""Whether tests of MariaDB and MySQL can run on this machine."""

from __future__ import annotations

import os

import pytest

from rowcall.testing.mysql import INSTALL_ADVICE, find_server

REQUIRE_MYSQL = "ROWCALL_REQUIRE_MARIADBD"


def require_mysql() -> None:
    """Skip the test where no server is installed; fail it where the environment asks for one."""
    if find_server() is None:
        if os.environ.get(REQUIRE_MYSQL) == "1":
            pytest.fail(f"no server of MariaDB or MySQL is installed, and {REQUIRE_MYSQL} asks for it")
        pytest.skip(f"no server of MariaDB or MySQL is installed: {INSTALL_ADVICE}")

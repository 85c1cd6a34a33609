"""A real MariaDB or MySQL server for tests, without root and without a service set up by hand."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rowcall.testing.private_server import PrivateServer

try:
    import pymysql

    from rowcall.drivers.mysql.connection import PymysqlConnection
except ImportError as error:
    raise ImportError("MariaDB and MySQL need PyMySQL: pip install 'rowcall[mysql]'") from error

# quick, and safe against everything but a crash of the operating system
FAST_SETTINGS: Mapping[str, str] = MappingProxyType({"innodb_flush_log_at_trx_commit": "2", "sync_binlog": "0"})
# what the servers do by default; for measuring
DURABLE_SETTINGS: Mapping[str, str] = MappingProxyType({"innodb_flush_log_at_trx_commit": "1", "sync_binlog": "1"})
# Few pages and a short log: less to write when a server is made, and to read when one that crashed starts. The two
# servers ignore each other's settings.
_SMALL = MappingProxyType(
    {
        "innodb_buffer_pool_size": "32M",
        "max_connections": "200",
        "loose_innodb_log_file_size": "8M",
        "loose_mysqlx": "0",
        "skip_log_bin": "1",
        "loose_performance_schema": "0",
    }
)
_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/usr/local/mysql/bin")
PROGRAM = "ROWCALL_MYSQLD"
"""The variable of the environment that names the program to use, for instance where both are installed."""
INSTALL_ADVICE = "install MariaDB (on Debian: apt-get install mariadb-server)"


def find_server() -> Path | None:
    """Return the program that `ROWCALL_MYSQLD` names, or one on this machine, MariaDB's before MySQL's."""
    if named := os.environ.get(PROGRAM):
        return Path(named)
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), *_FOLDERS))
    found = shutil.which("mariadbd", path=path) or shutil.which("mysqld", path=path)
    return Path(found) if found else None


class MysqlServer(PrivateServer):
    """A private server. Every user of this machine may connect to it as `root`, without a password.

    with MysqlServer() as server:
        server.create_database("shop")
        server.restart("immediate")

    Without `program`, it is MariaDB if that is installed, or MySQL.
    """

    name = "MariaDB or MySQL"
    signals = MappingProxyType({"fast": signal.SIGTERM, "immediate": signal.SIGKILL})
    longest_socket = "socket"

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, str] = FAST_SETTINGS,
        tcp: bool = True,
        in_memory: bool = False,
        program: Path | None = None,
    ) -> None:
        program = program or find_server()
        if program is None:
            raise FileNotFoundError(f"no server of MariaDB or MySQL was found: {INSTALL_ADVICE}")
        super().__init__(folder, settings, tcp=tcp, in_memory=in_memory)
        self._program = program

    @property
    def is_mariadb(self) -> bool:
        return self._program.resolve().name == "mariadbd"

    def url(self, database: str = "mysql") -> str:
        """Over TCP, on this machine only."""
        if not self._tcp:
            return self.socket_url(database)
        return f"mysql://root@127.0.0.1:{self._started_port()}/{database}"

    def socket_url(self, database: str = "mysql") -> str:
        self._started_port()
        return f"mysql://root@localhost/{database}?unix_socket={self._socket}"

    def connect(self, database: str = "mysql") -> pymysql.Connection:
        """Return a connection in autocommit mode, over the socket."""
        self._started_port()
        return PymysqlConnection(unix_socket=str(self._socket), user="root", database=database, autocommit=True)

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database, and return its URL."""
        name = name or f"rowcall_{uuid.uuid4().hex[:16]}"
        self._execute(f"create database `{name}` character set utf8mb4")
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database. A missing database is not an error."""
        self._execute(f"drop database if exists `{name}`")

    def terminate_connections(self, database: str | None = None) -> int:
        """Cut off all clients, or the clients of one database. Return how many."""
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "select id from information_schema.processlist where id <> connection_id() and user <> 'system user'"
                " and user <> 'event_scheduler' and (%s is null or db = %s)",
                (database, database),
            )
            ids = [row[0] for row in cursor.fetchall()]
            for connection_id in ids:
                with contextlib.suppress(pymysql.OperationalError):  # it has just ended
                    cursor.execute(f"kill connection {connection_id}")
        return len(ids)

    @property
    def _socket(self) -> Path:
        return self._sockets / "socket"

    def _execute(self, statement: str) -> None:
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _make_data(self) -> None:
        if (self.data / "mysql").exists():
            return
        if self.is_mariadb:
            script = shutil.which("mariadb-install-db", path=os.pathsep.join((str(self._program.parent), os.defpath)))
            made_by = [script or "mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal"]
            made_by += ["--skip-test-db", "--skip-name-resolve"]
        else:
            made_by = [str(self._program), "--no-defaults", "--initialize-insecure"]
        folders = {"datadir": str(self.data), "tmpdir": str(self._sockets)}
        self._user.run([*made_by, *self._options({**_SMALL, **folders})], cwd=self._folder)

    def _command(self) -> Sequence[str]:
        settings = {
            **_SMALL,
            **self._settings,
            "datadir": str(self.data),
            "tmpdir": str(self._sockets),  # a server that starts deletes the temporary tables that it finds there
            "socket": str(self._socket),
            "pid_file": str(self._folder / "pid"),
            "port": str(self._port),
            **({} if self.is_mariadb else {"secure_file_priv": "NULL"}),  # else a folder that packages make
            **({"bind_address": "127.0.0.1"} if self._tcp else {"skip_networking": "1"}),
        }
        return [str(self._program), "--no-defaults", *self._options(settings)]

    @staticmethod
    def _options(settings: Mapping[str, str]) -> list[str]:
        return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]

    def _ready(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:  # PyMySQL forgets to close one that is refused
            try:
                client.connect(str(self._socket))
                return len(client.recv(5)) == 5  # the server's greeting has begun
            except OSError:  # also from a server that ends already
                return False

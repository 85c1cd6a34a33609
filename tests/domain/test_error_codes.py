"""Which code each exception counts by; those of libraries are raised by the libraries themselves."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.server
import json
import socket
import sqlite3
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import asyncpg
import django.core.exceptions
import django.db.utils
import httpx
import msgspec
import psycopg
import psycopg2
import psycopg_pool
import pydantic
import pytest
import requests
import sqlalchemy
import urllib3

from rowcall.base.text import CODE_LENGTH, code_problem
from rowcall.domain.error_codes import BY_TYPE, code_of, http_code, internal_code
from rowcall.domain.errors import Conflict, DataRefused, Fail, InvalidCode, StoreUnavailable

Call = Callable[[], object]


def select_nothing() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("select nothing")


def raised_by(call: Call) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


class OwnTimeout(TimeoutError): ...


class Unreadable(OSError):
    @property
    def errno(self) -> int:  # type: ignore[override]
        raise RuntimeError("not now")


class Point(pydantic.BaseModel):
    x: int


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TimeoutError(), "TIMEOUT:OPERATION"),
        (OwnTimeout("late"), "TIMEOUT:OPERATION"),
        (OSError(errno.ETIMEDOUT, "late"), "TIMEOUT:OPERATION"),
        (ConnectionError(), "DEPENDENCY:CONNECTION"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "no"), "DEPENDENCY:CONNECTION_REFUSED"),
        (ConnectionResetError(), "DEPENDENCY:CONNECTION_RESET"),
        (BrokenPipeError(), "DEPENDENCY:CONNECTION_RESET"),
        (socket.gaierror(-2, "no such host"), "DEPENDENCY:DNS"),
        (ssl.SSLCertVerificationError("expired"), "DEPENDENCY:TLS"),
        (OSError(errno.EHOSTUNREACH, "no way"), "DEPENDENCY:UNREACHABLE"),
        (MemoryError(), "RESOURCE:OUT_OF_MEMORY"),
        (OSError(errno.ENOMEM, "none"), "RESOURCE:OUT_OF_MEMORY"),
        (OSError(errno.ENOSPC, "full"), "RESOURCE:DISK_FULL"),
        (OSError(errno.EMFILE, "too many"), "RESOURCE:TOO_MANY_FILES"),
        (FileNotFoundError(errno.ENOENT, "gone"), "OS:ENOENT"),
        (FileNotFoundError("gone"), "OS:ENOENT"),
        (PermissionError(errno.EACCES, "no"), "OS:EACCES"),
        (PermissionError(errno.EPERM, "no"), "OS:EPERM"),
        (OSError("no number"), "INTERNAL:OSError"),
        (OSError(99_999, "no such number"), "INTERNAL:OSError"),
        (Unreadable(), "INTERNAL:Unreadable"),
        (AssertionError(), "INTERNAL:ASSERTION_FAILED"),
        (ValueError("x"), "INTERNAL:ValueError"),
        (KeyError("x"), "INTERNAL:KeyError"),
        (django.core.exceptions.ValidationError("no"), "INVALID_INPUT:SCHEMA_MISMATCH"),
        (psycopg_pool.PoolTimeout(), "TIMEOUT:DB_POOL"),
        (sqlalchemy.exc.TimeoutError(), "TIMEOUT:DB_POOL"),
        (requests.ConnectTimeout(), "TIMEOUT:UPSTREAM_API"),
        (requests.exceptions.SSLError(), "DEPENDENCY:TLS"),
        (requests.exceptions.ChunkedEncodingError(), "DEPENDENCY:PROTOCOL"),
        (requests.HTTPError("without a response"), "INTERNAL:HTTPError"),
        (urllib3.exceptions.ReadTimeoutError(None, "/", "late"), "TIMEOUT:UPSTREAM_API"),  # type: ignore[arg-type]
        (urllib.error.URLError(TimeoutError()), "TIMEOUT:OPERATION"),
        (urllib.error.URLError("unknown url type"), "DEPENDENCY:CONNECTION"),
        (psycopg.errors.SerializationFailure(), "DEPENDENCY:DB_CONFLICT"),
        (psycopg.errors.DeadlockDetected(), "DEPENDENCY:DB_DEADLOCK"),
        (psycopg.errors.DiskFull(), "RESOURCE:DISK_FULL"),
        (psycopg.errors.AdminShutdown(), "DEPENDENCY:DB_UNAVAILABLE"),
        (psycopg.errors.ConnectionFailure(), "DEPENDENCY:DB_UNAVAILABLE"),
        (psycopg.errors.UniqueViolation(), "INTERNAL:UniqueViolation"),
        (psycopg.OperationalError("the connection is closed"), "DEPENDENCY:DB_UNAVAILABLE"),
        (asyncpg.LockNotAvailableError(), "DEPENDENCY:DB_LOCKED"),
        (asyncpg.UniqueViolationError(), "INTERNAL:UniqueViolationError"),
        (StoreUnavailable("gone"), "DEPENDENCY:DB_UNAVAILABLE"),
        (Conflict("another process"), "DEPENDENCY:DB_UNAVAILABLE"),
        (DataRefused("no"), "DEPENDENCY:DB_REFUSED"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_the_class_decides(error: BaseException, code: str) -> None:
    assert code_of(error) == code


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: json.loads("{"), "INVALID_INPUT:NOT_JSON"),
        (lambda: Point.model_validate({"x": "one"}), "INVALID_INPUT:SCHEMA_MISMATCH"),
        (lambda: msgspec.json.decode("1", type=str), "INVALID_INPUT:SCHEMA_MISMATCH"),
        (lambda: Path("no/such/file").read_text(), "OS:ENOENT"),
        (lambda: Path(".").read_text(), "OS:EISDIR"),
        (lambda: Path("/dev/full").write_text("x"), "RESOURCE:DISK_FULL"),
        (lambda: concurrent.futures.Future[None]().result(timeout=0), "TIMEOUT:OPERATION"),
        (lambda: subprocess.run([sys.executable], stdin=subprocess.PIPE, timeout=0), "TIMEOUT:SUBPROCESS"),
        (lambda: asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 0.001)), "TIMEOUT:OPERATION"),
        (lambda: sqlite3.connect("no/such/folder/file.db"), "DEPENDENCY:DB_UNAVAILABLE"),
        (select_nothing, "INTERNAL:OperationalError"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_errors_of_the_standard_library_as_they_come(call: Call, code: str) -> None:
    assert code_of(raised_by(call)) == code


class Statuses(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path[1:]), "said so")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    """Answers /404 with 404."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Statuses) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Takes connections, and never answers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def closed() -> str:
    """Connect to a port without a server."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        return f"http://127.0.0.1:{listening.getsockname()[1]}"


def with_httpx(url: str) -> None:
    httpx.get(url, timeout=0.05 if url.count("/") == 2 else 5, trust_env=False).raise_for_status()


def with_requests(url: str) -> None:
    with requests.Session() as session:
        session.trust_env = False
        session.get(url, timeout=0.05 if url.count("/") == 2 else 5).raise_for_status()


def with_urllib3(url: str) -> None:
    with urllib3.PoolManager(retries=0) as pool:
        pool.request("GET", url, timeout=0.05)


CLIENTS = pytest.mark.parametrize("get", [with_httpx, with_requests])
EVERY_CLIENT = pytest.mark.parametrize("get", [with_httpx, with_requests, with_urllib3])


@CLIENTS
@pytest.mark.parametrize(
    ("status", "code"), [(404, "HTTP:404"), (429, "HTTP:429"), (503, "HTTP:503"), (599, "HTTP:5XX")]
)
def test_http_clients_by_status(get: Callable[[str], None], site: str, status: int, code: str) -> None:
    assert code_of(raised_by(lambda: get(f"{site}/{status}"))) == code


@EVERY_CLIENT
def test_http_clients_that_wait_too_long(get: Callable[[str], None], silent: str) -> None:
    assert code_of(raised_by(lambda: get(silent))) == "TIMEOUT:UPSTREAM_API"


@EVERY_CLIENT
def test_http_clients_without_a_server(get: Callable[[str], None], closed: str) -> None:
    assert code_of(raised_by(lambda: get(f"{closed}/"))) == "DEPENDENCY:CONNECTION"


def test_urllib_errors_by_status_and_by_cause(site: str, closed: str) -> None:
    with closing(raised_by(lambda: urllib.request.urlopen(f"{site}/410"))) as gone:  # type: ignore[type-var]
        assert code_of(gone) == "HTTP:410"
    refused = raised_by(lambda: urllib.request.urlopen(closed))
    assert code_of(refused) == "DEPENDENCY:CONNECTION_REFUSED"


def test_the_set_of_statuses_is_small() -> None:
    codes = {http_code(status) for status in range(-1000, 10_000)} | {http_code(None), http_code("404"), http_code(4e2)}
    assert len(codes) < 80


def locked_file(path: Path) -> sqlite3.Connection:
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("create table t (x)")
    holder.execute("begin immediate")
    return holder


def test_a_locked_sqlite_file_with_every_driver(tmp_path: Path) -> None:
    with closing(locked_file(tmp_path / "a.db")), closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as other:
        plain = raised_by(lambda: other.execute("insert into t values (1)"))
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'a.db'}", connect_args={"timeout": 0})
        with engine.connect() as connection:
            wrapped = raised_by(lambda: connection.execute(sqlalchemy.text("insert into t values (1)")))
        engine.dispose()
    djangos = django.db.utils.OperationalError("database is locked")
    djangos.__cause__ = plain
    ours = StoreUnavailable("locked")
    ours.__cause__ = plain
    assert [code_of(error) for error in (plain, wrapped, djangos, ours)] == ["DEPENDENCY:DB_LOCKED"] * 4


def test_a_locked_row_of_a_server_with_every_driver(postgres_url: str) -> None:
    take, try_it = "lock table t in exclusive mode", "lock table t in exclusive mode nowait"
    with closing(psycopg.connect(postgres_url)) as holder:
        holder.execute("create table t (x int)")
        holder.commit()
        holder.execute(take)
        with closing(psycopg.connect(postgres_url)) as other:
            by_psycopg = raised_by(lambda: other.execute(try_it))
            other.rollback()
            other.execute("set statement_timeout = 1")
            late = raised_by(lambda: other.execute("select pg_sleep(5)"))
        with closing(psycopg2.connect(postgres_url)) as older, older.cursor() as cursor:
            by_psycopg2 = raised_by(lambda: cursor.execute(try_it))
    assert (code_of(by_psycopg), code_of(by_psycopg2)) == ("DEPENDENCY:DB_LOCKED", "DEPENDENCY:DB_LOCKED")
    assert code_of(late) == "TIMEOUT:DB_QUERY"


def test_a_server_that_is_not_there(closed: str) -> None:
    url = closed.replace("http", "postgresql")
    assert code_of(raised_by(lambda: psycopg.connect(url))) == "DEPENDENCY:DB_UNAVAILABLE"
    assert code_of(raised_by(lambda: psycopg2.connect(url))) == "DEPENDENCY:DB_UNAVAILABLE"


def test_an_error_raised_from_another_counts_by_itself() -> None:
    error = RuntimeError("could not sync")
    error.__cause__ = TimeoutError()
    assert code_of(error) == "INTERNAL:RuntimeError"


def test_a_group_counts_as_its_members_if_they_agree() -> None:
    late = ExceptionGroup("two", [TimeoutError(), ExceptionGroup("one", [OwnTimeout()])])
    mixed = ExceptionGroup("two", [TimeoutError(), KeyError()])
    assert (code_of(late), code_of(mixed)) == ("TIMEOUT:OPERATION", "INTERNAL:ExceptionGroup")


def test_errors_that_carry_themselves_come_to_an_end() -> None:
    circle = StoreUnavailable("round")
    circle.__cause__ = circle
    assert code_of(circle) == "DEPENDENCY:DB_UNAVAILABLE"


def test_codes_of_the_app_come_first_also_inside_wrappers() -> None:
    wrapped = StoreUnavailable("late")
    wrapped.__cause__ = TimeoutError()

    def own(error: BaseException) -> str | None:
        return "MY:OWN" if isinstance(error, TimeoutError) else None

    assert [code_of(error, own) for error in (TimeoutError(), wrapped, KeyError())] == [
        "MY:OWN",
        "MY:OWN",
        "INTERNAL:KeyError",
    ]


@pytest.mark.parametrize("name", ["E" * 500, "a b", "Größe", "a:b", "<lambda>", "…"])
def test_whatever_a_class_is_called_its_code_is_one(name: str) -> None:
    assert code_problem(internal_code(type(name, (Exception,), {}))) is None


@pytest.mark.parametrize(
    "code", ["A:B", "HTTP:404", "INTERNAL:KeyError", "a.b-c_1:x", "BROKEN", "A:B:C", "A:" + "B" * (CODE_LENGTH - 2)]
)
def test_valid_codes(code: str) -> None:
    assert code_problem(code) is None
    assert Fail(code).code == code


@pytest.mark.parametrize(
    "code", ["", ":", "A:", ":B", "A::B", "A B:C", "A:B\n", "A:\0", "A:\ud800", "A:" + "B" * 99, None, 5, b"A:B"]
)
def test_an_invalid_code_is_refused_where_it_is_raised(code: str) -> None:
    with pytest.raises(InvalidCode, match=r'^code must look like "TIMEOUT:UPSTREAM_API"'):
        Fail(code)


def test_no_library_is_imported_for_its_names() -> None:
    program = "import json, sys; from rowcall.domain.error_codes import code_of; code_of(OSError(2, 'gone'));"
    program += "print(json.dumps(list(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    libraries = (
        {name.partition(".")[0] for name in BY_TYPE} - {"builtins", "rowcall", "msgspec"} - sys.stdlib_module_names
    )
    assert libraries >= {"httpx", "requests"}
    assert libraries & set(json.loads(said)) == set()

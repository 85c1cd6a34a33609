"""No command, error or log shows a password, however malformed the URL is that holds it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rowcall import Rowcall, RowcallError
from rowcall.app import queue_of
from rowcall.base.urls import redacted, shown
from rowcall.cli.main import main

WORD = "hunter2"

WITH_A_HOST = [
    "postgresql://bob:{}@127.0.0.1:1/shop",
    "postgres://bob:{}@127.0.0.1:1",
    "postgresql://:{}@127.0.0.1:1/shop",
    "postgresql://b@b:{}@127.0.0.1:1/shop",
    "postgresql://bob:{}@/shop?host=127.0.0.1&port=1",
    "postgresql://bob:{}@127.0.0.1:port/shop",
    "postgresql://bob:{}@[::1]:1/shop",
    "postgresql://bob:{}@[::1/shop",
    "postgresql://bob:{}@127.0.0.1:1,127.0.0.1:2/shop",
    "postgresql://bob:{}@127.0.0.1:1/shop?nonsense=1&sslmode=maybe",
    "postgresql://bob@127.0.0.1:1/shop?password={}",
    "postgresql://bob:x@127.0.0.1:1/shop?sslmode=disable&password={}&connect_timeout=1",
    "postgresql://bob@127.0.0.1:1/shop?sslpassword={}",
    "postgresql://bob@127.0.0.1:1/shop?pass%77ord={}",
    "postgresql+psycopg://bob:{}@127.0.0.1:1/shop",
    "POSTGRESQL://bob:{}@127.0.0.1:1/shop",
    " postgresql://bob:{}@127.0.0.1:1/shop",
    "postgresql:/bob:{}@127.0.0.1:1/shop",
    "postgresql:bob:{}@127.0.0.1:1/shop",
    "bob:{}@postgresql://127.0.0.1:1/shop",
    "oracle://bob:{}@127.0.0.1/shop",
    "mysql://bob:{}@127.0.0.1:1/shop",
    "mariadb://bob:{}@127.0.0.1:1/shop?ssl_ca=missing.pem",
    "mysql://bob:{}@127.0.0.1:port",
    "mysql+pymysql://bob:{}@127.0.0.1:1/shop",
    "sqlite://bob:{}@127.0.0.1/shop",
    "sqlite:///bob:{}@127.0.0.1/shop",
    "sqlite:///bob%3A{}@127.0.0.1/shop",
    "sqlite:///bob%253a{}@127.0.0.1/shop",
    "sqlite:///bob:{}%40127.0.0.1/shop",
    "sqlite:///app.db?password={}",
    "postgres//bob:{}@127.0.0.1/shop",
    "postgres%3A//bob%3A{}@127.0.0.1/shop",
    "bob:{}@127.0.0.1/shop",
]
WITHOUT_A_HOST = [
    "postgres://bob:{}",
    "postgresql://bob:{}/shop",
    "mysql://bob:{}/shop",
    "postgres//bob:{}",
    "postgres/bob:{}",
    "//bob:{}",
    "postgres%3A//bob:{}",
]
DSN = ["host=127.0.0.1 port=1 user=bob password={}", "host=127.0.0.1 port=1 user=bob password='{}'"]

pieces = st.lists(st.sampled_from([*"@/:?#% &=;'\"[]\\\té", "%2", WORD]), max_size=6)
passwords = st.builds(lambda before, after: "".join([*before, WORD, *after]), pieces, pieces)
malformed = (
    st.builds(str.format, st.sampled_from(WITH_A_HOST), passwords | passwords.map(quote))
    # what stands behind an @ is a host there, for all that can be known
    | st.builds(str.format, st.sampled_from(WITHOUT_A_HOST), passwords.map(lambda password: password.replace("@", "")))
    | st.builds(str.format, st.sampled_from(DSN), passwords)
)

several = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text += self.format(record)


@pytest.fixture
def records() -> Iterator[Records]:
    handler, root = Records(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.removeHandler(handler)
    root.setLevel(before)


def said_of(error: BaseException) -> str:
    said = "".join(traceback.format_exception(error))
    link: BaseException | None = error
    while link is not None:
        said += f"{link!r} {link}"
        link = link.__cause__ or link.__context__
    return said


@given(malformed)
@settings(max_examples=500)
def test_a_url_is_shown_without_its_password(url: str) -> None:
    assert WORD not in shown(url)
    assert WORD not in redacted(f"could not resolve {url!r} or '{url}'", url)


@several
@given(malformed, st.booleans())
@example("mysql://bob:hunter2/shop", False)
@example("mysql://bob: hunter2/@127.0.0.1:1/shop", False)
@example("mariadb://bob:hunter2@127.0.0.1:1/shop?ssl_ca=missing.pem", False)
def test_no_error_and_no_log_shows_a_password(records: Records, url: str, is_listening: bool) -> None:
    records.text = ""  # the fixture is the same for all examples
    try:
        with Rowcall(url if not is_listening else "postgresql://127.0.0.1:1/shop", listen_url=url) as jobs:
            records.text += (
                f"{queue_of(jobs).database.name} {jobs!r} {queue_of(jobs).config!r} {queue_of(jobs).config.server!r}"
            )
            jobs.enqueue("task")
    except RowcallError as error:
        records.text += said_of(error)
    try:
        with Rowcall(url) as jobs:
            records.text += (
                f"{queue_of(jobs).database.name} {jobs!r} {queue_of(jobs).config!r} {queue_of(jobs).config.server!r}"
            )
            jobs.enqueue("task")
    except RowcallError as error:
        records.text += said_of(error)
    assert WORD not in records.text


COMMANDS = [
    ("doctor", "--url", "{}"),
    ("doctor", "--json", "--url", "{}"),
    ("stats", "--url={}"),
    ("jobs", "--url", "{}"),
    ("migrate", "--url", "{}"),
    ("bench", "--url", "{}"),
    ("work", "{}"),
    ("stats", "{}"),
    ("show", "5", "{}"),
    ("retry", "{}"),
    ("stats",),
    ("doctor",),
]


@several
@given(malformed, st.sampled_from(COMMANDS))
def test_no_command_shows_a_password(folder: Path, records: Records, url: str, words: tuple[str, ...]) -> None:
    records.text = ""
    environment = {"ROWCALL_URL": url} if "{}" not in "".join(words) else {}
    result = CliRunner().invoke(main, [word.format(url) for word in words], env=environment)
    assert result.exit_code != 0
    assert WORD not in result.output
    assert WORD not in records.text
    if result.exception is not None:
        assert isinstance(result.exception, SystemExit)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("url", ["postgres//bob:hunter2", "postgres/bob:hunter2", "sqlite:///bob%3Ahunter2@h/x"])
@pytest.mark.parametrize("words", COMMANDS)
def test_no_command_shows_a_password_of_a_url_without_its_colon_or_escaped(
    folder: Path, url: str, words: tuple[str, ...]
) -> None:
    environment = {"ROWCALL_URL": url} if "{}" not in "".join(words) else {}
    result = CliRunner().invoke(main, [word.format(url) for word in words], env=environment)
    assert result.exit_code != 0
    assert WORD not in result.output


def test_a_file_whose_name_looks_like_a_password_is_opened_if_all_of_it_is_escaped(folder: Path) -> None:
    with Rowcall("sqlite:///bob%3Ax%40h.db") as jobs:
        jobs.enqueue("task")
    assert (folder / "bob:x@h.db").exists()

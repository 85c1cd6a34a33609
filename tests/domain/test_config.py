from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from rowcall import InvalidOption, Rowcall
from rowcall.app import queue_of
from rowcall.domain.config import URL_FORMS, Config, configure, database_of


def configured(url: str = "sqlite:///app.db", /, **given: object) -> Config:
    options: dict[str, object] = {
        "table_prefix": "rowcall_",
        "durability": "full",
        "default_queue": "default",
        "auto_migrate": True,
        "busy_timeout": 5.0,
        **given,
    }
    return configure(url, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///app.db", "app.db"),
        ("sqlite:////srv/app.db", "/srv/app.db"),
        ("sqlite:///folder/with%20space.db", "folder/with space.db"),
        ("sqlite:///:memory:", ":memory:"),
        (Path("/srv/app.db"), "/srv/app.db"),
        (Path("app.db"), "app.db"),
    ],
)
def test_urls_and_paths_name_files(url: str | Path, path: str) -> None:
    assert database_of(url) == path


def test_without_a_url_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROWCALL_URL", "sqlite:////srv/jobs.db")
    assert database_of(None) == "/srv/jobs.db"
    assert queue_of(Rowcall()).config.path == "/srv/jobs.db"


@pytest.mark.parametrize("value", [None, ""])
def test_without_either_there_is_a_default(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("ROWCALL_URL", raising=False)
    if value is not None:
        monkeypatch.setenv("ROWCALL_URL", value)
    assert database_of(None) == "rowcall.db"


@pytest.mark.parametrize(
    ("url", "kind"),
    [("postgres://db-1/shop", "postgresql"), ("mysql://db-1/shop", "mysql"), ("mariadb://db-1/shop", "mysql")],
)
def test_the_scheme_of_a_url_says_which_server_it_is(url: str, kind: str) -> None:
    server = configured(url, pool_size=9).server
    assert server is not None
    assert (server.url, server.kind, server.pool_size) == (url, kind, 9)


def test_a_url_to_listen_on_is_for_postgresql() -> None:
    for url, problem in (
        ("mysql://db-1/shop", "remove it for MariaDB"),
        ("postgresql://db-1/shop", "must be a postgresql://"),
    ):
        with pytest.raises(InvalidOption, match=problem):
            configured(url, listen_url="mysql://db-1/shop")


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("oracle://localhost/db", f"unknown database oracle://; write {URL_FORMS}"),
        ("redis://localhost", "sqlite:///app.db"),
        ("sqlite://app.db", "three slashes"),
        ("sqlite:///", "does not name a file"),
        ("postgresql+asyncpg://user@host/db", "write postgresql://"),
        ("mysql+pymysql://user@host/db", "write mysql://"),
        ("app.db", "write sqlite:///app.db or pass a pathlib.Path"),
        ("", "is not a URL"),
        ("sqlite:///a%00b", "does not name a file"),
        (b"sqlite:///app.db", "must be a URL or a pathlib.Path, got bytes"),
        (7, "must be a URL or a pathlib.Path, got int"),
    ],
)
def test_a_url_of_an_unknown_database_is_refused_with_advice(url: object, advice: str) -> None:
    with pytest.raises(InvalidOption) as caught:
        Rowcall(url)  # type: ignore[arg-type]
    assert caught.value.option == "url"
    assert advice in str(caught.value)


async def hide_later(text: str) -> str:
    return ""


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("table_prefix", ""),
        ("table_prefix", "1abc"),
        ("table_prefix", "a-b"),
        ("table_prefix", "a; drop table x"),
        ("table_prefix", "x" * 41),
        ("table_prefix", None),
        ("table_prefix", "sqlite_"),
        ("table_prefix", "Shop_"),
        ("durability", "off"),
        ("durability", None),
        ("default_queue", ""),
        ("default_queue", "a\0b"),
        ("default_queue", 3),
        ("default_queue", "x" * 201),
        ("default_queue", "\ud800"),
        ("busy_timeout", -1),
        ("busy_timeout", float("nan")),
        ("busy_timeout", 3601),
        ("busy_timeout", "5"),
        ("scrub", "hide"),
        ("scrub", hide_later),
        ("traceback_limit", -1),
        ("traceback_limit", 99),
        ("traceback_limit", 1_000_001),
        ("traceback_limit", True),
        ("traceback_limit", 500.0),
        ("traceback_limit", "8 KB"),
    ],
)
def test_a_wrong_option_is_refused_by_name(option: str, value: object) -> None:
    with pytest.raises(InvalidOption) as caught:
        configured(**{option: value})
    assert caught.value.option == option


def test_one_error_lists_all_problems() -> None:
    with pytest.raises(InvalidOption) as caught:
        Rowcall("oracle://x", table_prefix="", durability="off", default_queue="", busy_timeout=-1)
    for name in ("url", "table_prefix", "durability", "default_queue", "busy_timeout"):
        assert re.search(rf"\b{name}(:| must) ", str(caught.value))


def test_a_configuration_is_frozen() -> None:
    with pytest.raises(AttributeError):
        configured().path = "other"  # type: ignore[misc]


def test_options_are_stored_as_given() -> None:
    config = configured(
        table_prefix="q_",
        durability="normal",
        default_queue="mail",
        auto_migrate=False,
        busy_timeout=1,
        scrub=str.strip,
        traceback_limit=100,
    )
    assert config == Config(
        path="app.db",
        table_prefix="q_",
        durability="normal",
        default_queue="mail",
        auto_migrate=False,
        busy_timeout_seconds=1.0,
        scrub=str.strip,
        traceback_limit=100,
    )
    assert (configured(traceback_limit=None).traceback_limit, configured(traceback_limit=0).traceback_limit) == (0, 0)
    assert configured("sqlite:///:memory:").in_memory
    assert not config.in_memory


@pytest.mark.parametrize(("given", "seconds"), [(0, 0.0), (90, 90.0), (timedelta(minutes=5), 300.0)])
def test_the_time_to_wait_for_a_worker_that_fits(given: float | timedelta, seconds: float) -> None:
    assert configured(mismatch_grace=given).mismatch_grace_seconds == seconds


@pytest.mark.parametrize("given", [-1, "soon", float("nan"), True])
def test_a_wrong_duration_is_refused(given: object) -> None:
    with pytest.raises(InvalidOption, match="mismatch_grace"):
        configured(mismatch_grace=given)

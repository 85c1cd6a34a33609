"""Which parts of a URL are shown; tests/cli/test_secrets.py tries many malformed ones."""

from __future__ import annotations

import pytest

from rowcall.base.urls import is_clear, looks_secret, may_be_url, redacted, shown


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://bob:hunter2", "postgresql://bob***"),
        ("postgresql://bob:hunter2/shop", "postgresql://bob***"),
        ("postgresql://db-1:5432", "postgresql://db-1:5432"),
        ("postgresql://b@b:hunter2@db-1/shop", "postgresql://***"),
        ("postgresql://bob@db-1:port/shop", "postgresql://bob@db-1***"),
        ("postgresql://bob@db-1/shop?password=a@hunter2", "postgresql://***"),
        ("postgresql://bob@db-1/shop?password=a&hunter=2", "postgresql://bob@db-1/shop?password=***&***"),
        ("postgresql://bob@db-1/shop?sslmod=on&port=1", "postgresql://bob@db-1/shop?sslmod=***&port=1"),
        ("postgresql://bob%3Ahunter2@db-1/shop", "postgresql://***"),
        ("postgresql://bob%253ahunter2@db-1/shop", "postgresql://***"),
        ("postgresql://bob%3Ahunter2%40db-1/shop", "postgresql://***"),
        ("postgresql://bob%40corp:a%3Ab@db-1/shop", "postgresql://bob%40corp@db-1/shop"),
        ("postgresql://db-1/shop?user=bob%3Ahunter2", "postgresql://db-1/shop?user=***"),
        (
            "mysql://bob:hunter2@db-1/shop?unix_socket=/run/db&ssl_ca=a b",
            "mysql://bob@db-1/shop?unix_socket=/run/db&ssl_ca=***",
        ),
        ("mariadb://bob:hunter2@db-1", "mariadb://bob@db-1"),
        ("redis://bob:hunter2@db-1", "redis://***"),
        ("sqlite:///app.db", "sqlite:///app.db"),
        ("sqlite:///app.db?key=hunter2", "sqlite:///app.db?***"),
        ("sqlite:///app.db#hunter2", "sqlite:///app.db#***"),
        ("sqlite:///bob:hunter2@db-1/shop", "sqlite://***"),
        ("sqlite:///bob%3Ahunter2@db-1/shop", "sqlite://***"),
        ("sqlite:///bob:hunter2%40db-1/shop", "sqlite://***"),
        ("sqlite:///bob%3Ax%40db-1.db", "sqlite:///bob%3Ax%40db-1.db"),
        ("host=db-1 password=hunter2", "***"),
    ],
)
def test_only_parts_that_are_not_secret_are_shown(url: str, expected: str) -> None:
    assert shown(url) == expected


def test_a_text_about_a_url_keeps_the_parts_that_are_shown() -> None:
    url = "postgresql://bob:a%40hunter2@db-1:5432/shop"
    said = 'host "hunter2@db-1", port 5432, user "bob": password "a@hunter2" or "a%40hunter2" or A failed at a time'
    assert redacted(said, url) == (
        'host "***@db-1", port 5432, user "bob": password "***@***" or "***%***" or *** failed at *** time'
    )


def test_a_text_about_a_url_keeps_the_scheme() -> None:
    assert (
        redacted("postgres//bob:x: write postgresql://", "postgres//bob:x") == "postgres//***:***: write postgresql://"
    )


@pytest.mark.parametrize(("text", "secret"), [("app:jobs", False), ("bob:x@db-1", True), ("a password=x", True)])
def test_texts_that_may_contain_a_password(text: str, secret: bool) -> None:
    assert looks_secret(text) == secret


@pytest.mark.parametrize(
    ("text", "may_be"),
    [
        ("postgresql://db-1", True),
        ("postgres//bob:x", True),
        ("postgres/bob:x", True),
        ("sqlite:///app.db", False),
        ("app:jobs", False),
        ("shop/app.py:jobs", False),
    ],
)
def test_texts_that_may_be_the_url_of_a_server(text: str, may_be: bool) -> None:
    assert may_be_url(text) == may_be


@pytest.mark.parametrize(
    ("url", "clear"),
    [
        ("postgresql://db-1/shop", True),
        ("postgresql://db-1:5432,db-2:5433/shop", True),
        ("postgresql:///shop?host=/tmp", True),
        ("postgresql://ann:a%40b@db-1/shop", True),
        ("postgresql://ann:a:b@[::1]:5432/shop", True),
        ("postgresql://[::1]:5432/shop", True),
        ("postgresql://ann:a@db-1/shop?application_name=me@here", True),
        ("postgresql://ann:a@b@db-1/shop", False),
        ("postgresql://ann:a b@db-1/shop", False),
        ("postgresql://ann:a/b@db-1/shop", False),
        ("postgresql://ann:a?b@db-1/shop", False),
        ("postgresql://ann%3Asecret%40db-1/shop", False),
        ("postgresql://ann:secret", False),
        ("postgresql://ann:secret/shop", False),
    ],
)
def test_where_the_password_of_a_url_ends_is_clear_or_not(url: str, clear: bool) -> None:
    assert is_clear(url) == clear


@pytest.mark.parametrize("part", ["pass", "a", "scram_client_", ":", "//", "%3a", "a=", "&"])
def test_a_long_text_is_searched_once(part: str) -> None:
    """A search that starts again at each part takes hours for this many."""
    text = part * 200_000
    assert (looks_secret(text), may_be_url(text)) == (False, False)
    assert redacted(text, "postgresql://bob@db-1") == text


@pytest.mark.parametrize(
    "name", ["password", "sslpassword", "PGPASSFILE", "client_secret", "scram_server_key", "x=pass"]
)
def test_values_of_secret_names_are_hidden(name: str) -> None:
    assert redacted(f"a=1&{name}=x=y&b=2 {name}=z", "") == f"a=1&{name}=***&b=2 {name}=***"

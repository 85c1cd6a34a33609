"""URLs without their secrets, for messages and logs, even if a URL is malformed.

Only parts that are certainly not secret are shown. Text that does not fit the grammar of a URL may be half a password.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

HIDDEN = "***"
SECRET = re.compile(  # a name is read once, from its start: texts may be long
    r"(?<![^=&\s])(?=[^=&\s]*+=)([^=&\s]*?(?:pass[^=&\s]*|secret|scram_(?:client|server)_key))=[^&\s]*", re.IGNORECASE
)

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_SERVERS = ("postgresql", "postgres", "mysql", "mariadb")
_USER = re.compile(r"[\w.%~+-]*")
_HOST = r"(?:\[[0-9A-Za-z:.%]+\]|[\w.%~-]*)(?::\d{1,5}(?=[,/?]|$))?"
_HOSTS = re.compile(rf"{_HOST}(?:,{_HOST})*(?=[/?]|$)")
_LOCATION = re.compile(rf"{_HOSTS.pattern}(?:/[\w.%~+-]*(?=\?|$))?")
_FIRST_NAME = re.compile(r"[\w.~-]*")
_PARAMETER = re.compile(r"[A-Za-z_]{1,40}")
_VALUE = re.compile(r"[\w.:,/%+~-]*")
_SECRET_NAME = re.compile(r"pass|secret|_key$", re.IGNORECASE)
_ESCAPED_COLON = re.compile(r"%(?:25)*3a", re.IGNORECASE)  # a user and a password that were escaped together
# escaped in part: a file name with : and @ has both escaped
_PASSWORD = re.compile(r"[^:]*+:.*?(?:@|%(?:25)*40)|(?>.*?%(?:25)*3a).*@", re.IGNORECASE | re.DOTALL)
_URL = re.compile(rf".*?://|(?>.*?//).*:|(?:{'|'.join(_SERVERS)})/.*:", re.DOTALL)
_OPTIONS = re.compile(r"(?<=[?#]).+", re.DOTALL)
_PARAMETERS = """
    host hostaddr port dbname user connect_timeout client_encoding options application_name
    fallback_application_name keepalives keepalives_idle keepalives_interval keepalives_count tcp_user_timeout
    replication gssencmode gssdelegation gsslib sslmode sslnegotiation sslcompression sslcert sslkey sslrootcert
    sslcrl sslcrldir sslsni sslcertmode requirepeer ssl_min_protocol_version ssl_max_protocol_version
    min_protocol_version max_protocol_version channel_binding require_auth krbsrvname service target_session_attrs
    load_balance_hosts
    unix_socket ssl_ca ssl_cert ssl_key
"""
_KNOWN = frozenset(_PARAMETERS.split())


def shown(url: str) -> str:
    """Return a URL without its secrets.

    >>> shown("postgresql://ann:secret@db-1:5432/shop?sslmode=require&password=x")
    'postgresql://ann@db-1:5432/shop?sslmode=require&password=***'
    >>> shown("mysql://ann:secret"), shown("redis://ann:secret@db-1"), shown("ann:secret@db-1")
    ('mysql://ann***', 'redis://***', '***')
    """
    scheme, mark, address = url.partition("://")
    if not mark or not _SCHEME.fullmatch(scheme):
        return HIDDEN
    if scheme == "sqlite":
        return f"sqlite://{HIDDEN}" if looks_secret(address) else _OPTIONS.sub(HIDDEN, url)
    if scheme not in _SERVERS:
        return f"{scheme}://{HIDDEN}"
    userinfo, at, location = address.rpartition("@")  # the last one: a password may contain @
    user = userinfo.partition(":")[0]
    if not _USER.fullmatch(user) or _ESCAPED_COLON.search(user) or SECRET.search(unquote(userinfo)):
        return f"{scheme}://{HIDDEN}"
    match = _LOCATION.match(location) or _FIRST_NAME.match(location)
    assert match is not None
    if _ESCAPED_COLON.search(match[0]):
        return f"{scheme}://{user}{at}{HIDDEN}"
    return f"{scheme}://{user}{at}{match[0]}{_shown_query(location[match.end() :])}"


def is_clear(url: str) -> bool:
    """Return whether user, password and host of a server's URL can be told apart.

    If not, half a password could be taken for a host and sent to a name server.
    """
    rest = url.partition("://")[2]
    userinfo, at, location = rest.rpartition("@")
    if at and re.search(r"[@/?#\s]", userinfo):
        return "?" in userinfo and is_clear(url[: url.index("?")])  # an @ in the query
    hosts = _HOSTS.match(location)
    return bool(at) or (hosts is not None and not _ESCAPED_COLON.search(hosts[0]))


def looks_secret(text: str) -> bool:
    """Return whether a text that should be a path or a name may contain a password."""
    return bool(_PASSWORD.match(text) or SECRET.search(unquote(text)))


def may_be_url(text: str) -> bool:
    """Return whether a text may be the URL of a server, even without the colon or a slash after its scheme.

    >>> may_be_url("postgresql://bob"), may_be_url("postgres//bob:secret"), may_be_url("/srv//app.db")
    (True, True, False)
    """
    return bool(_URL.match(text)) and not text.startswith("sqlite:")


def redacted(text: str, url: str) -> str:
    """Return a text without anything that `shown` hides of the URL: libpq quotes what it cannot parse."""
    scheme = [word for word in _words(url)[:1] if word in _SERVERS]
    seen = {*scheme, *_words(shown(url))}
    for word in sorted({*_words(url), *_words(unquote(url))} - seen, key=lambda word: (-len(word), word)):
        # a short word occurs inside many others
        pattern = re.escape(word) if len(word) > 2 else rf"(?<!\w){re.escape(word)}(?!\w)"
        text = re.sub(pattern, HIDDEN, text, flags=re.IGNORECASE)
    return SECRET.sub(rf"\1={HIDDEN}", text)


def _words(url: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s:/?#@&=,\[\]]+", url)


def _shown_query(query: str) -> str:
    if not query.startswith("?"):
        return HIDDEN if query else ""
    parameters: list[str] = []
    after_secret = False
    for parameter in query[1:].split("&"):
        parameters.append(_shown_parameter(parameter, after_secret))
        after_secret = after_secret or parameters[-1].endswith(HIDDEN)
    return f"?{'&'.join(parameters)}"


def _shown_parameter(parameter: str, after_secret: bool) -> str:
    name, mark, value = parameter.partition("=")
    if name in _KNOWN and _VALUE.fullmatch(value) and not _ESCAPED_COLON.search(value):
        return parameter
    if not _PARAMETER.fullmatch(name) or (after_secret and name not in _KNOWN and not _SECRET_NAME.search(name)):
        return HIDDEN
    return f"{name}={HIDDEN}" if mark else name

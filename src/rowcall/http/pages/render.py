"""Renders templates: what all pages share, and how times, numbers and sizes look."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import jinja2
import msgspec
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rowcall.base.text import duration, one_line
from rowcall.domain.config import VERSION
from rowcall.domain.job import FINISHED, Status
from rowcall.http.guard import ACCESS, CSRF_COOKIE, SESSION_COOKIE, base_path, csrf_token, set_cookie
from rowcall.http.pages.places import PLACES
from rowcall.http.sessions import SESSION_SECONDS
from rowcall.overview import formats
from rowcall.overview.jobs import detail, when

FLASH_COOKIE = "rowcall_flash"
LONGEST_SHOWN, LONGEST_VALUE, MOST_ARGUMENTS = 20_000, 80, 6
# a string that was shortened has no end: it is found, too, or the search would start again at each quote in it
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+(?:"(:?)|$)', re.DOTALL)

_WORD = re.compile(r"[^:_./-]*[:_./-]|[^:_./-]+")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{3})?) UTC")

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def compile_templates() -> None:
    """Compile all templates, which takes a tenth of a second: for the first page."""
    for name in _templates.list_templates():
        _templates.get_template(name)


def time_element(at: datetime | None, now: datetime) -> Markup:
    """Return how long ago it was, with the exact time on hover."""
    if at is None:
        return Markup('<span class="none">–</span>')
    if formats.exact(at) == formats.SIGNALLED:
        return Markup("<span>{}</span>").format(formats.SIGNALLED)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.astimezone(UTC).isoformat(), formats.exact(at), formats.ago(at, now)
    )


def timed(text: str) -> Markup:
    """Return a text whose times the reader can switch to local time."""
    parts, end = [], 0
    for match in _TIME.finditer(text):
        try:
            at = datetime.fromisoformat(f"{match[1]}+00:00").isoformat()
        except ValueError:  # a text that only looks like a time
            continue
        time = Markup('<time datetime="{}" title="{}">{} UTC</time>').format(at, match[0], match[1][:19])
        parts += [escape(text[end : match.start()]), time]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def advice_steps(advice: str) -> Markup:
    """Return what to do, one thing in each line, with commands that stand out."""
    lines = (Markup("<li>{}{}</li>").format(words, _command(typed)) for words, typed in formats.steps_of(advice))
    return Markup("").join(lines)


def _command(typed: str) -> Markup:
    """Return a command, whose options are not broken after a hyphen."""
    words = (Markup('<span class="whole">{}</span>').format(one) if one[:1] == "-" else one for one in typed.split(" "))
    return Markup("<code>{}</code>").format(Markup(" ").join(words)) if typed else Markup()


def pretty_json(value: object) -> str:
    """Return readable JSON, shortened if it is very long."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    return shortened(text, LONGEST_SHOWN)


def coloured_json(value: object) -> Markup:
    """Return readable JSON in which the names stand out.

    >>> coloured_json({"a<": "b"})
    Markup('{\\n  <span class="key">&#34;a&lt;&#34;</span>: &#34;b&#34;\\n}')
    """
    text, at, parts = pretty_json(value), 0, []
    for match in _STRING.finditer(text):
        if match[1]:
            parts += [escape(text[at : match.start()]), Markup('<span class="key">{}</span>:').format(match[0][:-1])]
            at = match.end()
    return Markup("").join([*parts, escape(text[at:])])


def pairs(payload: object) -> list[tuple[str, str]]:
    """Return the first arguments with their values, each on one line.

    >>> pairs({"to": "ann@example.com", "sizes": [1, 2]})
    [('to', 'ann@example.com'), ('sizes', '[1,2]')]
    """
    arguments = payload if isinstance(payload, dict) else {"": payload}
    return [
        (
            shortened(str(name), LONGEST_VALUE),
            one_line(shortened(value if isinstance(value, str) else compact(value), LONGEST_VALUE)),
        )
        for name, value in list(arguments.items())[:MOST_ARGUMENTS]
    ]


def compact(value: object) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


_templates.filters.update(
    number=lambda value: f"{value:,}",
    duration=duration,
    size=formats.size,
    exact=formats.exact,
    local=lambda at: at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M"),
    unquoted=unquote,
    percent=lambda value: f"{value:.0%}",
    pretty=pretty_json,
    coloured=coloured_json,
    advice=advice_steps,
    timed=timed,
    breakable=lambda name: Markup("<wbr>").join(map(escape, _WORD.findall(name))),
    shortened=shortened,
    segment=lambda text: quote(text, safe=""),
)
_templates.tests["finished"] = lambda status: status in FINISHED
_templates.globals.update(
    version=VERSION,
    places=PLACES,
    statuses=[status.value for status in Status],
    time=time_element,
    compact=compact,
    in_one_unit=formats.in_one_unit,
    pairs=pairs,
    when=when,
    detail_of=detail,
)


def render(request: Request, template: str, context: Mapping[str, object], status: int = 200) -> Response:
    """Return a page. Its forms carry the token of the visitor's cookie."""
    csrf = csrf_token(request)
    query = dict(request.query_params)

    def link(**changes: object) -> str:
        """Return this page with another query; None removes a parameter."""
        merged = [(name, value) for name, value in request.query_params.multi_items() if name not in changes]
        merged += [
            (name, str(item))
            for name, value in changes.items()
            for item in (value if isinstance(value, list) else [value])
            if item is not None
        ]
        return f"?{urlencode(merged)}"

    html = _templates.get_template(template).render(
        base=base_path(request.scope),
        access=request.scope.get(ACCESS),
        csrf=csrf,
        signed_in=SESSION_COOKIE in request.cookies,
        flash=request.cookies.get(FLASH_COOKIE),
        here=request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        link=link,
        query=query,
        **context,
    )
    response = HTMLResponse(html, status)
    if request.cookies.get(CSRF_COOKIE) != csrf:
        set_cookie(request, response, CSRF_COOKIE, csrf, SESSION_SECONDS)
    if FLASH_COOKIE in request.cookies:
        response.delete_cookie(FLASH_COOKIE, path=base_path(request.scope) or "/")
    return response

"""Renders templates: what all pages share, and how times, numbers and sizes look."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, unquote, urlencode

import jinja2
import msgspec
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from rowcall.base.text import duration
from rowcall.domain.config import VERSION
from rowcall.domain.job import FINISHED, WAITING, Status
from rowcall.http.guard import ACCESS, CSRF_COOKIE, SESSION_COOKIE, SESSION_SECONDS, base_path, csrf_token, set_cookie
from rowcall.overview import formats
from rowcall.overview.jobs import detail, when

FLASH_COOKIE = "rowcall_flash"
LONGEST_SHOWN = 20_000

_templates = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent.parent / "templates"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def time_element(at: datetime | None, now: datetime) -> Markup:
    """Return how long ago it was, with the exact time on hover."""
    if at is None:
        return Markup('<span class="none">–</span>')
    exact = f"{formats.moment(at)} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.astimezone(UTC).isoformat(), exact, formats.ago(at, now)
    )


def pretty_json(value: object) -> str:
    """Return readable JSON, shortened if it is very long."""
    text = msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
    return shortened(text, LONGEST_SHOWN)


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


_templates.filters.update(
    number=lambda value: f"{value:,}",
    duration=duration,
    size=formats.size,
    rate=formats.rate,
    exact=lambda at: f"{formats.moment(at)} UTC",
    unquoted=unquote,
    percent=lambda value: f"{value:.0%}",
    pretty=pretty_json,
    shortened=shortened,
    segment=lambda text: quote(text, safe=""),
)
_templates.tests.update(finished=lambda status: status in FINISHED, waiting=lambda status: status in WAITING)
_templates.globals.update(
    version=VERSION,
    statuses=[status.value for status in Status],
    time=time_element,
    compact=lambda value: msgspec.json.encode(value, enc_hook=str).decode(),
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
            (name, str(one))
            for name, value in changes.items()
            for one in (value if isinstance(value, list) else [value])
            if one is not None
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

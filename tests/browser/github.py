"""The README as GitHub shows it, near enough to measure it and to look at it."""

from __future__ import annotations

from markdown_it import MarkdownIt

from tests.docs.pages import README, ROOT, read

STYLE = """
:root { color-scheme: light; --ink: #1f2328; --page: #fff; --line: #d1d9e0; --code: #f6f8fa; --link: #0969da }
@media (prefers-color-scheme: dark) {
  :root { color-scheme: dark; --ink: #f0f6fc; --page: #0d1117; --line: #3d444d; --code: #151b23; --link: #4493f8 } }
body { margin: 32px 16px; font: 16px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif;
  color: var(--ink); background: var(--page) }
article { display: flow-root; max-width: 980px; margin: auto; overflow-wrap: break-word }
h1, h2 { margin: 24px 0 16px; padding-bottom: .3em; border-bottom: 1px solid var(--line); font-weight: 600;
  line-height: 1.25 }
h1 { font-size: 2em; margin-top: 0 } h2 { font-size: 1.5em }
p, ul, pre, table { margin: 0 0 16px } ul { padding-left: 2em } article > :last-child { margin-bottom: 0 }
li + li { margin-top: .25em } a { color: var(--link) } img { max-width: 100% }
code { font: 85% ui-monospace, "SF Mono", Menlo, Consolas, "Liberation Mono", monospace; padding: .2em .4em;
  border-radius: 6px; background: var(--code) }
pre { padding: 16px; overflow: auto; line-height: 1.45; font-size: 85%; border-radius: 6px; background: var(--code) }
pre code { font-size: 100%; padding: 0 } table { display: block; overflow: auto; border-collapse: collapse }
th, td { padding: 6px 13px; border: 1px solid var(--line) } th { font-weight: 600 }
"""
BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="150" height="20"><rect width="150" height="20"/></svg>"""


def readme_page() -> str:
    """Return the README as a page. Badges are drawn, because tests load nothing from another host."""
    body = MarkdownIt("commonmark", {"html": True}).enable("table").render(read(README))
    return f'<!doctype html><base href="{ROOT.as_uri()}/"><style>{STYLE}</style><article>{body}</article>'

"""The pages of the site that are not files in docs/, and its navigation. MkDocs calls the functions: `make docs`."""

from __future__ import annotations

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import rowcall

ROOT = Path(__file__).parent.parent
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "RELEASING.md": "releasing.md",
    "README.md": "index.md",
}
API = "api.md"
EXAMPLES = {
    readme: Path("examples", f"{readme.parent.name}.md") for readme in sorted(ROOT.glob("examples/*/README.md"))
}
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the table of all pages in index.md."""
    config.nav = [{"Rowcall": "index.md"}, *_sections((ROOT / "docs/index.md").read_text(encoding="utf-8"))]
    return config


def _sections(index: str) -> list[dict[str, list[dict[str, str]]]]:
    table = index.partition("## All pages")[2]
    sections: list[dict[str, list[dict[str, str]]]] = []
    for row in re.findall(r"^\| ([^|]+) \| (.*\]\(.*) \|$", table, re.MULTILINE):
        pages = [{title: _place(target)} for title, target in LINK.findall(row[1])]
        sections.append({row[0].capitalize(): pages})
    sections[0]["Begin"].append({"API": API})
    return [*sections, {"Examples": [{place.stem: str(place)} for place in EXAMPLES.values()]}]


def _place(target: str) -> str:
    """Return the place in the site of a file that index.md names."""
    return OUTSIDE.get(target.removeprefix("../")) or target


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in OUTSIDE.items():
        if place != "index.md":
            text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")
            text = LINK.sub(lambda link: f"[{link[1]}]({OUTSIDE.get(link[2], link[2])})", text)
            files.append(File.generated(config, place, content=text))
    for readme, place in EXAMPLES.items():
        text = LINK.sub(r"\1", readme.read_text(encoding="utf-8"))  # the code itself is not in the site
        files.append(File.generated(config, str(place), content=text))
    files.append(File.generated(config, API, content=_api()))
    return files


def _api() -> str:
    """Return a page with the docstrings of every public name, the main ones first."""
    first = ["Rowcall", "Task", "Context", "Job", "Worker"]
    values = {name: getattr(rowcall, name) for name in rowcall.__all__}
    errors = [name for name, value in values.items() if isinstance(value, type) and issubclass(value, Exception)]
    others = [name for name in rowcall.__all__ if name not in first and name not in errors]
    parts = ["# API", "What `from rowcall import …` offers. [Reference](reference.md) lists it on one page."]
    for heading, names in (("Main classes", first), ("Errors", errors), ("Values and options", others)):
        parts += [f"## {heading}", *(f"::: rowcall.{name}" for name in names)]
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files outside docs/ to their pages; a file without a page becomes plain text."""

    def corrected(link: re.Match[str]) -> str:
        title, target = link.groups()
        if not target.startswith("../"):
            return link[0]
        outside, at, anchor = target.removeprefix("../").partition("#")
        if outside.startswith("docs/"):
            return f"[{title}]({outside.removeprefix('docs/')}{at}{anchor})"
        place = OUTSIDE.get(outside) or (f"{outside}.md" if outside.startswith("examples/") else None)
        return title if place is None else f"[{title}]({place}{at}{anchor})"

    return markdown if "/" in page.file.src_uri else LINK.sub(corrected, markdown)

"""The pages of the site that are not files in docs/, and its navigation. MkDocs calls the functions: `make docs`."""

from __future__ import annotations

import json
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import rowcall

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted(ROOT.glob("examples/*/README.md"))
GENERATED = {  # files of the repository that are not in docs/, and their places in the site
    "CONTRIBUTING.md": "contributing.md",
    "tests/README.md": "tests.md",
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "RELEASING.md": "releasing.md",
    **{f"examples/{path.parent.name}/README.md": f"examples/{path.parent.name}.md" for path in EXAMPLES},
}
API = "api.md"
# what the search multiplies the hits of a page by, or of a section of the navigation: answers before lists of names
RANKS = {
    "The guide": 1.5,
    "Coming from": 0.5,
    "Contribute": 0.2,
    "Examples": 0.2,
    "index.md": 0.2,
    "reference.md": 0.2,
    API: 0.2,
}
RANKS |= {"cli.md": 0.5, "http-api.md": 0.5, "agents.md": 0.5, "controlling.md": 1.5, "proof.md": 1.0}
CERTIFICATES = {"SQLite": "sqlite-*.json", "PostgreSQL": "postgresql-*.json", "MariaDB": "mariadb-*.json"}
PROOF = ROOT / "docs" / "proof"
FOR_DEVELOPERS = {"Contribute", "Examples"}
FIGURES = re.compile(r"<!-- figures .*?-->")
PICTURE = re.compile(r'<picture>\s*<source [^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')
LINK = re.compile(r"\[([^\]]*)\]\(([^)\s]+)\)")
LINK_OR_CODE = re.compile(rf"```.*?```|{LINK.pattern}|`[^`\n]*`", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take the navigation from the table of all pages in index.md."""
    config.nav = [{"Home": "index.md"}, *_sections((ROOT / "docs/index.md").read_text(encoding="utf-8"))]
    return config


def _sections(index: str) -> list[dict[str, list[dict[str, str]]]]:
    table = index.partition("## All pages")[2]
    sections: list[dict[str, list[dict[str, str]]]] = []
    for row in re.findall(r"^\| ([^|]+) \| (.*\]\(.*) \|$", table, re.MULTILINE):
        pages = [{title: _place("docs", target) or target} for title, target in LINK.findall(row[1])]
        sections.append({row[0].capitalize(): pages})
    reference = next(section["Reference"] for section in sections if "Reference" in section)
    reference.insert(1, {"API": API})
    return [*sections, {"Examples": [{path.parent.name: f"examples/{path.parent.name}.md"} for path in EXAMPLES]}]


def _place(folder: str, target: str) -> str | None:
    """Return the place in the site of a file that a page in a folder of the repository names, if it has one."""
    file = posixpath.normpath(posixpath.join(folder, target))
    if file.startswith("examples/"):
        file = f"{file.removesuffix('/README.md')}/README.md"
    inside = file.removeprefix("docs/")
    return GENERATED.get(file) or {"README.md": "index.md"}.get(file) or (inside if inside != file else None)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, place in GENERATED.items():
        text = _with_places((ROOT / name).read_text(encoding="utf-8"), name, place)
        files.append(File.generated(config, place, content=text))
    files.append(File.generated(config, API, content=_api()))
    files.append(
        File.generated(config, "site/logo.svg", abs_src_path=str(ROOT / "src/rowcall/http/static/favicon.svg"))
    )
    return files


def _landing(markdown: str) -> str:
    """Add the figures of the last runs to the page, and show the picture that fits the chosen colours."""
    figures = [
        (f"{_acknowledged(names):,}", f"jobs on {name} under kills: none lost") for name, names in CERTIFICATES.items()
    ]
    seeds = json.loads((PROOF / "simulation.json").read_bytes())
    worlds = sum(part["last"] - part["first"] + 1 for part in seeds)
    figures.append((f"{worlds:,}", "simulated worlds of workers: no promise broken"))
    shown = "\n\n".join(f"**{figure}** {meaning}" for figure, meaning in figures)
    markdown = FIGURES.sub(f'<div class="figures" markdown>\n\n{shown}\n\n</div>', markdown)
    return PICTURE.sub(r"![\2](\3#only-light){ .picture } ![\2](\1#only-dark){ .picture }", markdown)


def _acknowledged(names: str) -> int:
    certificates = (json.loads(path.read_bytes()) for path in (PROOF / "torture").glob(names))
    return sum(certificate["jobs"]["acknowledged"] for certificate in certificates)


def _with_places(markdown: str, name: str, place: str) -> str:
    """Point the links of a file to places in the site, seen from its own; a file without one becomes plain text."""

    def corrected(link: re.Match[str]) -> str:
        title, target = link.groups()
        if title is None or "://" in target or target.startswith("#"):
            return link[0]
        path, at, anchor = target.partition("#")
        found = _place(posixpath.dirname(name), path)
        return (
            title
            if found is None
            else f"[{title}]({posixpath.relpath(found, posixpath.dirname(place) or '.')}{at}{anchor})"
        )

    return LINK_OR_CODE.sub(corrected, markdown)


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
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
        markdown = _landing(markdown)
    section = page.parent.title if page.parent else ""
    page.meta["search"] = {"boost": RANKS.get(place) or RANKS.get(section, 1.0)}
    return markdown if page.file.generated_by else _with_places(markdown, f"docs/{place}", place)


def on_post_build(config: MkDocsConfig) -> None:
    """Write the pages for language models: a list with a line on each, and all of them in one file."""
    summary, full = [f"# Rowcall\n\n> {config.site_description}.\n"], []
    for section in _sections((ROOT / "docs/index.md").read_text(encoding="utf-8")):
        for heading, pages in section.items():
            summary.append(f"## {heading}\n")
            for place in (place for page in pages for place in page.values() if (ROOT / "docs" / place).exists()):
                text = (ROOT / "docs" / place).read_text(encoding="utf-8")
                title, first = text.removeprefix("# ").split("\n\n")[:2]
                about = LINK.sub(r"\1", " ".join(first.split()))
                summary.append(f"- [{title}]({place.replace('README', 'index').removesuffix('.md')}.html): {about}")
                if heading not in FOR_DEVELOPERS:
                    full.append(f"<!-- {place} -->\n\n{text}")
            summary.append("")
    Path(config.site_dir, "llms.txt").write_text("\n".join(summary), encoding="utf-8")
    Path(config.site_dir, "llms-full.txt").write_text("\n".join(full), encoding="utf-8")

"""The documentation as a site: each Markdown page of the clone as HTML, with a list of all pages beside it.

Links between pages lead to the pages, and links to other files of the clone to copies of them. A link that leads
nowhere is an error that names it. The search needs no server.
"""

from __future__ import annotations

import html
import itertools
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from documents import site_search

#: The pages in the order in which they are listed, by what they are for.
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Exporting": (
        "README.md",
        "docs/coming_from_torch_onnx.md",
        "docs/assumptions.md",
        "docs/troubleshooting.md",
        "docs/language_models.md",
        "docs/speech_models.md",
        "docs/diffusion_models.md",
        "docs/classes_of_transformers.md",
        "docs/quantized_models.md",
        "docs/halves.md",
        "docs/api.md",
        "docs/surface.md",
        "docs/operators.md",
        "docs/torchscript.md",
    ),
    "Testing": (
        "docs/exports_in_your_tests.md",
        "docs/your_own_cases.md",
        "docs/harness_reference.md",
        "docs/conformance.md",
        "docs/conformance_runners.md",
        "docs/search.md",
        "docs/cluster.md",
        "docs/gate.md",
        "docs/continuous_integration.md",
        "docs/reports.md",
    ),
    "The project": (
        "docs/architecture.md",
        "docs/glossary.md",
        "harness/README.md",
        "docs/versions.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
    ),
}

_STYLE = """\
:root { --paper: #fdfdfc; --ink: #1b1d1c; --soft: #63686a; --line: #e3e3de; --link: #1f5c8c; --code: #f5f5f2; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #141716; --ink: #e4e7e4; --soft: #979e9b; --line: #2c3230; --link: #84bde8; --code: #1d2120; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
.page { display: flex; max-width: 76rem; margin-inline: auto; padding: 1.5rem; gap: 2.5rem; }
.side { flex: 0 0 14rem; font-size: .92em; } .to-pages { display: none; }
nav ul { list-style: none; padding: 0; margin: .2rem 0 1.2rem; } nav li { margin-bottom: .25rem; }
nav p { color: var(--soft); margin: 0; }
nav [aria-current] { font-weight: 600; text-decoration: none; } main { min-width: 0; flex: 1; overflow-wrap: anywhere; }
th, td { overflow-wrap: normal; }
a { color: var(--link); } code, pre { font: .9em ui-monospace, monospace; background: var(--code); border-radius: 3px; }
code { padding: .1em .25em; } pre { padding: .8rem 1rem; overflow-x: auto; } pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: .92em; } img { max-width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .35rem .7rem; text-align: left; vertical-align: top; }
h1, h2, h3 { line-height: 1.25; }
/* On a phone the page comes before the list of pages. */
@media (max-width: 50rem) {
  .page { flex-direction: column; gap: 1rem; padding: 1rem; } .side { display: contents; }
  .side nav { order: 1; border-top: 1px solid var(--line); padding-top: 1rem; } .to-pages { display: block; }
}
"""


class DeadLinkError(Exception):
    """Links that lead nowhere. The message names each, with its page."""


def build_site(root: Path, out: Path) -> list[Path]:
    """Write the site of the clone at `root` to the folder `out`, and return its pages."""
    pages = {name: (root / name).read_text(encoding="utf-8") for section in SECTIONS.values() for name in section}
    parsed = {name: _parser().parse(text) for name, text in pages.items()}
    anchors = {name: set(_give_anchors(tokens)) for name, tokens in parsed.items()}
    files: set[str] = set()
    dead = [line for name in pages for line in _dead_links(name, parsed[name], anchors, root, files)]
    if dead:
        raise DeadLinkError("\n".join(dead))
    written = []
    sections: list[site_search.Section] = []
    for name, tokens in parsed.items():
        target = out / _address(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        sections += site_search.sections_of(_title(pages[name]), _address(name), tokens)
        body = _parser().renderer.render(tokens, _parser().options, {})
        target.write_text(_page(name, _title(pages[name]), body, pages), encoding="utf-8")
        written.append(target)
    (out / site_search.SECTIONS_FILE).write_text(site_search.write_sections(sections), encoding="utf-8")
    for file in sorted(files):
        target = out / "files" / file
        target.parent.mkdir(parents=True, exist_ok=True)
        # As plain text, so that a browser shows it.
        shutil.copyfile(root / file, target if _is_shown(file) else target.with_name(f"{target.name}.txt"))
    return written


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def _address(name: str) -> str:
    """`docs/gate.md` is `gate.html`, and `README.md` the first page."""
    if name == "README.md":
        return "index.html"
    return f"{name.removeprefix('docs/').removesuffix('.md').replace('/', '-').lower()}.html"


def _title(text: str) -> str:
    return re.sub(r"[`*]", "", text.partition("\n")[0].lstrip("# "))


def anchor_of(heading: str) -> str:
    """The anchor that GitHub gives a heading too, so that one link serves both."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _give_anchors(tokens: list[Token]) -> Iterator[str]:
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            anchor = anchor_of(inline.content)
            opening.attrSet("id", anchor)
            yield anchor


def _dead_links(
    name: str, tokens: list[Token], anchors: Mapping[str, set[str]], root: Path, files: set[str]
) -> Iterator[str]:
    """Turn the links of a page into those of the site, and yield those that lead nowhere. Adds the files they name."""
    for token in (child for each in tokens for child in (each.children or ())):
        attribute = {"link_open": "href", "image": "src"}.get(token.type)
        if attribute is None:
            continue
        link = str(token.attrGet(attribute))
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if target in anchors:
            if anchor and anchor not in anchors[target]:
                yield f"{name}: {link} names no heading of {target}"
            token.attrSet(attribute, _address(target) + (f"#{anchor}" if anchor else ""))
        elif (root / target).is_file() and not target.startswith(".."):
            files.add(target)
            token.attrSet(attribute, f"files/{target}" + ("" if _is_shown(target) else ".txt"))
        else:
            yield f"{name}: {link} leads nowhere"


def _is_shown(file: str) -> bool:
    """Whether a browser shows the file as it is."""
    return Path(file).suffix in (".png", ".svg")


def _page(name: str, title: str, body: str, pages: Mapping[str, str]) -> str:
    nav = []
    for section, names in SECTIONS.items():
        links = "".join(f"<li>{_link(each, _title(pages[each]), current=each == name)}</li>" for each in names)
        nav.append(f"<p>{section}</p><ul>{links}</ul>")
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}{site_search.STYLE}</style></head>\n"
        f'<body><div class="page"><div class="side">{site_search.FORM}<a class="to-pages" href="#pages">All pages</a>'
        f'<nav id="pages" aria-label="Pages">{"".join(nav)}</nav></div>\n'
        f"<main>\n{body}</main></div></body>\n</html>\n"
    )


def _link(name: str, title: str, *, current: bool) -> str:
    marked = ' aria-current="page"' if current else ""
    return f'<a href="{_address(name)}"{marked}>{html.escape(title)}</a>'

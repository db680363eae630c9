"""The documentation as a site: every page is in it, and no link of it leads nowhere."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

import start
from documents import site
from documents.__main__ import app
from tests.packaging.test_documents import DOCUMENTS

ROOT = Path(start.__file__).parent


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name == "id" and value:
                self.anchors.add(value)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    site.build_site(ROOT, folder)
    return folder


def test_every_document_is_a_page() -> None:
    assert {page for section in site.SECTIONS.values() for page in section} == set(DOCUMENTS)


def test_every_link_of_the_site_leads_somewhere(built: Path) -> None:
    pages = {path.name: Page(path.read_text()) for path in built.glob("*.html")}
    assert len(pages) == len(DOCUMENTS)
    for name, page in pages.items():
        inner = [link for link in page.links if not re.match(r"[a-z]+:", link)]
        assert len(inner) >= len(DOCUMENTS)
        for link in inner:
            path, _, anchor = link.partition("#")
            assert (built / (path or name)).is_file(), f"{name}: {link}"
            assert not anchor or anchor in pages[path or name].anchors, f"{name}: {link}"


def test_the_site_loads_nothing_from_elsewhere(built: Path) -> None:
    for path in built.glob("*.html"):
        text = path.read_text()
        assert not re.search(r"<(script .*src|link|iframe)\b", text) and not re.search(r'src="[a-z]+:', text)


def test_what_the_search_finds_is_there(built: Path) -> None:
    """Every section can be found, and its address has an anchor."""
    script = (built / "sections.js").read_text(encoding="utf-8")
    sections = json.loads(script.removeprefix("const SECTIONS = ").rstrip(";\n"))
    assert {each["page"] for each in sections} == {site._title((ROOT / name).read_text()) for name in DOCUMENTS}
    pages = {path.name: Page(path.read_text()) for path in built.glob("*.html")}
    for each in sections:
        name, _, anchor = each["address"].partition("#")
        assert anchor in pages[name].anchors
    (gate,) = (each for each in sections if each["heading"] == "What counts as a regression")
    assert gate["address"] == "gate.html#what-counts-as-a-regression"
    assert "shrunk_headroom" in gate["text"]


@pytest.mark.parametrize(
    ("link", "told"),
    [("gone.md", "leads nowhere"), ("gate.md#gone", "names no heading of docs/gate.md"), ("../../x", "leads nowhere")],
)
def test_a_link_that_leads_nowhere_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str, told: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text("# First\n[the gate](docs/gate.md#a-gate)\n")
    (tmp_path / "docs" / "gate.md").write_text(f"# A gate\n[link]({link})\n")
    monkeypatch.setattr(site, "SECTIONS", {"": ("README.md", "docs/gate.md")})
    with pytest.raises(site.DeadLinkError) as caught:
        site.build_site(tmp_path, tmp_path / "out")
    assert str(caught.value) == f"docs/gate.md: {link} {told}"
    assert not (tmp_path / "out").exists()


def test_the_command_writes_the_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, ["site", str(tmp_path / "site")])
    assert (done.exit_code, done.output) == (0, f"{tmp_path / 'site' / 'index.html'}\n")
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["site", "site"])
    assert refused.exit_code == 2
    assert "is no clone of the project: it has no README.md" in refused.output

"""The pages as files: links lead to existing pages, nothing is loaded from outside, hostile runs are rendered."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from onnx_parity.harness.record import Blame, Record, RunInfo, Stage, Status
from onnx_parity.reports.site import write_report
from tests.records import write_run
from tests.reports.synthetic_run import (
    MODELS,
    OPERATORS,
    OPSETS,
    PASSING,
    Made,
    info,
    records,
)

#: Control characters and noncharacters, which HTML forbids.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")

FAILED = replace(PASSING, status=Status.FAILED, stage=Stage.COMPARE, blame=Blame.EXPORTER, reason="off by one")


class Page(HTMLParser):
    """A page's links, anchors and text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.scripts: list[str] = []
        self.text = ""
        self.json_blocks: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self._opsets: list[str] = []
        self.feed(self.source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "script":
            given = dict(attrs)
            self.scripts.append("defer" if "defer" in given else (given.get("type") or "").removeprefix("application/"))
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            elif name in ("href", "src") and value:
                self.links.append(value)
            elif name == "data-go" and value:
                self.links.append(f"{value}{OPSETS[-1]}")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.cdata_elem == "script" and data:
            self.json_blocks.append(data)


def site_of(tmp_path: Path, cells: list[Record], run_info: RunInfo | None = None) -> dict[str, Page]:
    """The pages of a report by their paths in it."""
    folder = write_report(write_run(tmp_path / "runs", cells, run_info or info()), tmp_path / "report").parent
    return {path.relative_to(folder).as_posix(): Page(path) for path in folder.rglob("*.html")}


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    some = [made for made in (*OPERATORS, *MODELS) if made.family in ("pooling", "rnn")]
    site = site_of(tmp_path, list(records(some)))
    followed = 0
    for path, page in site.items():
        assert len(page.ids) == len(set(page.ids)), f"{path} uses an id twice"
        for link in page.links:
            if link.startswith("https://github.com/"):
                continue  # The link of an expectation, as its record has it.
            target = urlsplit(link)
            assert not target.scheme + target.netloc, f"{path} leads outside: {link}"
            file = normpath(join(dirname(path), unquote(target.path))) if target.path else path
            assert (tmp_path / "report" / file).is_file(), f"{path}: {link}"
            if target.fragment:
                assert target.fragment in site[file].ids, f"{path}: {link}"
            followed += 1
    assert followed > 500


def test_a_case_page_has_every_cell_and_the_line_to_run_it_again(tmp_path: Path) -> None:
    cells = list(records([made for made in OPERATORS if made.name == "relu"]))
    site = site_of(tmp_path, cells)
    (page,) = (page for path, page in site.items() if path.startswith("cases/"))
    for record in cells:
        assert f'pytest "{record.nodeid}"' in page.text


def test_an_empty_run(tmp_path: Path) -> None:
    site = site_of(tmp_path, [], RunInfo(id="empty", started="", seed=1, tier=""))
    assert sorted(site) == ["divergence.html", "index.html", "traced.html"]
    assert "Nothing ran." in site["index.html"].text
    assert "No cell of this run was compared." in site["divergence.html"].text


def test_a_run_of_failures_alone_lists_them_and_stays_light(tmp_path: Path) -> None:
    cells = [
        replace(FAILED, cell=f"{case}-{opset}", case=f"elu[{case}]", opset=opset, message="m" * 500)
        for case in range(210)
        for opset in OPSETS[:3]
    ]
    site = site_of(tmp_path, cells)
    index = site["index.html"]
    assert "630 of the 630 cells that ran are wrong." in index.text
    assert "195 more" in index.text
    assert "10 more are not listed here" in index.text
    assert (tmp_path / "report" / "index.html").stat().st_size < 500_000


def test_names_and_messages_are_text_and_never_markup(tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&amp;"
    cell = replace(
        FAILED,
        cell=f"f[{hostile}]",
        case=f"f[{hostile}]",
        name=hostile,
        family=hostile,
        nodeid=f"op_cases/f.py::f[{hostile}]",
        dtype=hostile,
        reason=hostile,
        message=hostile,
        link="javascript:alert(1)",
        aten=(hostile,),
    )
    twin = replace(cell, cell="twin", case=f"g[{hostile}]")
    site = site_of(tmp_path, [cell, twin], replace(info(), missing={hostile: hostile}, tier=hostile, argv=(hostile,)))
    assert len(site) == 6
    for path, page in site.items():
        assert page.scripts == ["defer"] + ["json"] * (len(page.scripts) - 1), path
        assert page.tags.count("img") == 1, path
        assert not [link for link in page.links if link.startswith("javascript:")], path
    assert hostile in site["index.html"].text


#: Syntax of HTML, of attributes and of scripts, control characters and noncharacters, among any text.
_PIECES = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        ["</script>", "<img src=x>", '"', "'", "&#0;", "-->", "]]>", "\0", "\x1b[31m", "\x85", "\ufffe", "\n"]
    ),
)
_TEXTS = st.lists(_PIECES, max_size=5).map("".join)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(*[_TEXTS] * 8))
def test_pages_have_the_same_structure_whatever_their_texts_hold(
    tmp_path_factory: pytest.TempPathFactory, texts: tuple[str, ...]
) -> None:
    name, family, dtype, reason, message, aten, file, tier = texts

    def tags(fill: str) -> list[list[str]]:
        cell = replace(
            FAILED,
            case=f"case {fill or name}",
            name=f"name {fill or name}",
            family=f"family {fill or family}",
            dtype=f"dtype {fill or dtype}",
            reason=f"reason {fill or reason}",
            message=f"message {fill or message}",
            aten=(f"aten {fill or aten}",),
            file=f"file {fill or file}",
        )
        twin = replace(cell, cell="twin", case=f"twin {fill or name}")
        site = site_of(tmp_path_factory.mktemp("site"), [cell, twin], replace(info(), tier=f"tier {fill or tier}"))
        for page in site.values():
            assert not _FORBIDDEN.search(page.source)
            for block in page.json_blocks:
                json.loads(block)
        return sorted(page.tags for page in site.values())

    assert tags("") == tags("x")


@pytest.mark.parametrize(
    "case",
    ["f[a/b]", "f[../../x]", "f[größe=2×3]", "f[x[:, 0] = y]", "f[🙂]", "f[?#%20]", "f[" + "long" * 200 + "]", " "],
)
def test_any_case_name_has_a_page(tmp_path: Path, case: str) -> None:
    site = site_of(tmp_path, [replace(PASSING, case=case, name=case), replace(PASSING, cell="b")])
    pages = [page for path, page in site.items() if path.startswith("cases/")]
    assert any(case in page.text for page in pages)


def test_twenty_thousand_cells_take_seconds_and_their_pages_stay_light(tmp_path: Path) -> None:
    many = [Made("family", f"operator_{number}", (("Relu", 6),)) for number in range(400)]
    opsets = range(7, 29)
    cells = [*records(many, opsets=opsets), *records(many[:60], dtypes=("float16",), opsets=opsets)]
    assert len(cells) > 20_000
    run = write_run(tmp_path, cells)
    began = time.process_time()
    index = write_report(run, tmp_path / "report")
    assert time.process_time() - began < 10  # 2.5 s on the machine where this was written.
    text = index.read_text()
    assert text.count("<tr data-go=") == 400
    assert len(re.findall(r'class="opset"', text)) == 22
    assert index.stat().st_size < 1_000_000
    assert max(page.stat().st_size for page in index.parent.glob("*/*.html")) < 200_000

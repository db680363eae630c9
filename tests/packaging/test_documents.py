"""The documents: their programs run; the links, files and commands in them exist; no line is too long."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest
import torch
import torch.nn.functional as F

import onnx_parity
import start
from onnx_parity.exporter.lowering.builder import Graph
from onnx_parity.exporter.lowering.values.value import Value
from onnx_parity.exporter.registry import lowerings as registry
from onnx_parity.harness.case import Declaration, floats, op
from tests.packaging.test_rooms import LAYERS

ROOT = Path(start.__file__).parent
#: Written by `python -m documents` and `parity report`.
GENERATED = {"docs/api.md", "docs/harness_reference.md", "docs/operators.md", "docs/surface.md", "docs/torchscript.md"}
DOCUMENTS = tuple(
    path.relative_to(ROOT).as_posix()
    for folder in ("", "docs", "harness")
    for path in sorted((ROOT / folder).glob("*.md"))
)
MOST_COLUMNS = 120


def programs(document: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / document).read_text(), flags=re.DOTALL)


def test_readme_s_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs("README.md"):
        exec(program, names)
    assert torch.as_tensor(names["y"]).shape == (5, 8)
    opsets = {path.name: onnx.load(path).opset_import[0].version for path in tmp_path.glob("*.onnx")}
    assert opsets == {"model.onnx": 11, "model-9.onnx": 9, "model-13.onnx": 13, "model-18.onnx": 18}
    elu = names["elu"]
    assert isinstance(elu, Declaration)
    assert [case.label for case in elu.cases("elu")] == ["elu[alpha=1.0]", "elu[alpha=0.5]"]


def test_contributing_s_operator_is_right_on_its_case(monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever lowering the project itself has by now comes back afterwards.
    monkeypatch.setitem(registry._lowerings, "aten::softplus", {})
    operator, case, *_ = programs("CONTRIBUTING.md")
    names: dict[str, object] = {"lowering": onnx_parity.lowering, "Graph": Graph, "Value": Value}
    names |= {"F": F, "op": op, "floats": floats}
    exec(operator, names)
    exec(case, names)
    declaration = names["softplus"]
    assert isinstance(declaration, Declaration)
    x = torch.linspace(-3, 3, 7)
    for each in declaration.cases("softplus"):
        beta, threshold = (float(str(each.arguments[name])) for name in ("beta", "threshold"))
        module = torch.nn.Softplus(beta, threshold)
        for opset in (7, 18):
            torch.testing.assert_close(onnx_parity.export(module, (x,), opset_version=opset)(x), module(x))


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(document: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", without_code(document.read_text()), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> list[str]:
    """The links of a document to files that do not exist, or to headings that those files do not have."""
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", without_code(document.read_text())):
        path, _, anchor = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    return broken


def missing_paths(text: str) -> list[str]:
    """The files and folders of the project that a document names and that do not exist."""
    named = re.findall(
        r"`((?:benchmarks|docs|documents|exporter|harness|model_zoo|op_cases|reports|tests)/[\w./]*)`", text
    )
    return sorted({path for path in named if not (ROOT / path).exists()})


def long_lines(text: str) -> list[str]:
    """The lines that are longer than 120 columns. Rows of tables and output that is quoted may be."""
    quoted = re.sub(r"^```text\n.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return [line for line in quoted.splitlines() if len(line) > MOST_COLUMNS and not line.startswith("|")]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    assert broken_links(ROOT / document) == []


@pytest.mark.parametrize("document", sorted(set(DOCUMENTS) - GENERATED))
def test_files_and_folders_exist(document: str) -> None:
    assert missing_paths((ROOT / document).read_text()) == []


@pytest.mark.parametrize("parent", LAYERS)
def test_the_architecture_lists_every_folder_in_order(parent: str) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    heading = f"| folder of `{parent.removeprefix('exporter/')}/` |"
    table = text[text.index(heading) :].partition("\n\n")[0]
    assert tuple(re.findall(r"^\| `(\w+)/` \|", table, flags=re.MULTILINE)) == LAYERS[parent]


@pytest.mark.parametrize("document", sorted(set(DOCUMENTS) - GENERATED))
def test_lines_are_not_too_long(document: str) -> None:
    assert long_lines((ROOT / document).read_text()) == []


def test_every_document_is_looked_at() -> None:
    assert {*GENERATED, "README.md", "docs/architecture.md"} <= set(DOCUMENTS)


def test_missing_paths_are_found() -> None:
    assert missing_paths("`harness/` `harness/gone.py` `docs/api.md` `somewhere/else.py`") == ["harness/gone.py"]


def test_broken_links_and_long_lines_are_found(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("# A heading\n[a](#a-heading) [b](#b) [c](gone.md) [d](document.md#d) [e](https://e.example)\n")
    assert broken_links(document) == ["#b", "gone.md", "document.md#d"]
    long = "x" * (MOST_COLUMNS + 1)
    assert long_lines(f"| {long} |\n```text\n{long}\n```\n{long}\n") == [long]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_of_start_py_exist(document: str) -> None:
    commands = re.findall(r"python3 start\.py ([a-z]+)", (ROOT / document).read_text())
    assert set(commands) <= start.COMMANDS.keys()

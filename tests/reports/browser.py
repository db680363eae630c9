"""What the tests of the pages in a browser share: what their reports hold, and how a page is opened and read."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from onnx_parity.harness.drawing.drawings import AtOpset, Drawing, DrawnGraph, DrawnNode, ErrorInside, ErrorPicture
from onnx_parity.harness.record import Kind, Metrics
from onnx_parity.harness.results.public_names import NameGroup, PublicName
from onnx_parity.reports.pages.changes import Change, Changes

if TYPE_CHECKING:
    from playwright.sync_api import Page

#: Milliseconds that a browser may take for anything: seconds on an idle machine, more on a busy one.
TIMEOUT = 20_000
METRICS = Metrics(0.25, 0.25, 0.5, 2.1e6, 2.1e6, 4.8e-6, 1.2e-6, 0, (0, 1, 3, 3), 0.75, 1.0)


#: What a run is compared with, and what there is to be covered.
CHANGES = Changes(
    baseline="20260130-101500",
    headline="regressed: new failure (3)",
    regressed=True,
    environment=["torch 2.12.1 → 2.13.0"],
    counts=[("failed", 0, 3), ("passed", 1870, 1868)],
    times_compared=True,
    coverage=[("passed", 3, 1)],
    undecided=["exports of 1 case took longer"],
    report="../../before/report",
    changes=[
        Change(
            "fail",
            "new failure",
            "avg_pool2d[ceil_mode=True] float32",
            "passed in the baseline; error 2.5e-01",
            2,
            [7, 8],
            "f.py",
            1,
            "avg_pool2d[ceil_mode=True]-float32-opset7-cpu-trace-onnxruntime",
        ),
        Change(
            "fail", "new failure", "elu[alpha=0.5] float32", "passed in the baseline; error 1.5e-03", 1, [7], "f.py", 1
        ),
        Change("warn", "fix", "relu float32", "passes; failed at run in the baseline", 1, [9], "f.py", 1),
    ],
)
FINDINGS = [
    {"name": "elu", "title": "Elu of -0.0 is 0.0", "culprit": "onnxruntime", "fault": "wrong result", "text": "print()"}
]
NAMES = [
    NameGroup(
        "ATen", "aten", [PublicName("aten::elu"), PublicName("aten::avg_pool2d"), PublicName("aten::gone", "no")]
    ),
    NameGroup("ONNX", "onnx", [PublicName("Gone@1")]),
    NameGroup(
        "Models of timm", "models", [PublicName("all_of_timm", "timm is not installed here: install it", counts=False)]
    ),
    # The run says nothing of what its programs call.
    NameGroup("torch", "calls", [PublicName("torch.elu")]),
]


def open_page(page: Page, site: Path, address: str) -> None:
    """Open a page of the report, and wait until its data are shown."""
    # An address that differs only after # would not load the page again.
    page.goto("about:blank")
    page.goto(f"{site.as_uri()}/{address}")
    page.locator("table tbody tr, .note").first.wait_for()


def case(name: str, family: str, label: str = "", kind: str = "operator") -> str:
    shown = {"name": name, "family": family, "kind": kind} | ({"case": label} if label else {})
    return f"case.html#{urlencode(shown)}"


PAGES = (
    "index.html",
    "divergence.html",
    "traced.html",
    "pytorch.html",
    "changes.html",
    "history.html",
    "findings.html",
    "exporters.html",
    "runtimes.html",
    case("avg_pool2d", "pooling"),
    case("avg_pool2d", "pooling", "avg_pool2d[ceil_mode=True]"),
)


def axe(page: Page) -> None:
    """Let axe-core look for what a screen reader cannot read."""
    page.evaluate(resources.files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate(
        """axe.run({ resultTypes: ["violations"] })
            .then((found) => found.violations.map((each) => [each.id, each.nodes[0].html]))"""
    )
    assert found == [], page.url


def names(page: Page, table: str) -> list[str]:
    """The row heads of a table, as far as they are shown, in the order shown."""
    return page.locator(f"#{table} tbody tr:not([hidden]) th").all_inner_texts()


def chain(ops: Sequence[str], **more: object) -> DrawnGraph:
    """A graph of nodes one after the other, each of which also reads the input."""
    values = ["x", *(f"v{number}" for number in range(len(ops)))]
    nodes = [
        DrawnNode(op, 13, [before, "x"], [after], operator=f"aten.{op.lower()}", where="model.py:3")
        for op, before, after in zip(ops, values, values[1:], strict=False)
    ]
    return DrawnGraph(["x"], [values[-1]], nodes, types=dict.fromkeys(values, "Float(2, 3)"))


DRAWING = Drawing(
    Kind.OPERATOR, "pooling", "avg_pool2d", "avg_pool2d[ceil_mode=True]", "cell", 9,
    program="program(x: float32[2, 3]):\n  return x",
    exporter="parity",
    opsets=[
        AtOpset(7, error="AveragePool: ceil_mode needs opset 10"), AtOpset(9, 0), AtOpset(13, 1),
        AtOpset(9, 2, exporter="torch_script"),
    ],
    graphs=[
        chain(["Pad", "AveragePool", "Mul"]), chain(["Pad", "AveragePool", "Div", "Mul"]),
        chain(["Pad", "AveragePool", "Mul", "Identity"]),
    ],
    values={"v0": ErrorInside(False, 0.0), "v1": ErrorInside(True, None, "at (0, 1): 0.5")},
    errors=[ErrorPicture("output", "float32(2, 3)", [3, 2], 1, [[0.0, 0.2, 1e9], [0.0, 0.0, 0.01]])],
)  # fmt: skip

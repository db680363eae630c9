"""The cells that a folder's `smoke.toml` adds to the smoke tier, and so to the default tier.

    cells = [
        "eigvals[sample=0]-float32-opset18",
        "lp_pool2d[norm_type=1]-float64-opset9-dynamic",
    ]

The smoke tier runs the cases of operators in one dtype, at one opset. That leaves out code that only other dtypes and
opsets need, and operators that are declared for the default tier. A line adds one cell: a case, a dtype, an opset, and
`dynamic` if its axes are. `python -m benchmarks.mutants.smoke` writes those of this project.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from onnx_parity.harness.axes import Dtype, Selection, Shapes
from onnx_parity.harness.declaration_error import DeclarationError

FILE = "smoke.toml"
_CELL = re.compile(rf"(?P<label>.+)-(?P<dtype>{'|'.join(Dtype)})-opset(?P<opset>\d+)(?P<dynamic>-{Shapes.DYNAMIC})?")


class Added:
    """The added cells of one case: opsets by dtype and shapes."""

    def __init__(self) -> None:
        self._opsets: dict[tuple[Dtype, Shapes], list[int]] = {}

    def add(self, dtype: Dtype, shapes: Shapes, opset: int) -> None:
        self._opsets.setdefault((dtype, shapes), []).append(opset)

    def dtypes(self, selection: Selection) -> Sequence[Dtype]:
        found = dict.fromkeys(dtype for dtype, _ in self._opsets)
        return [each for each in found if selection.dtypes is None or each in selection.dtypes]

    def opsets(self, dtype: Dtype, shapes: Shapes, selection: Selection) -> Sequence[int]:
        found = self._opsets.get((dtype, shapes), ())
        return [each for each in found if selection.opsets is None or each in selection.opsets]


#: What is added to a case that is not named.
NOTHING = Added()


@cache
def read_added(folder: Path) -> Mapping[str, Added]:
    """What the file of a folder adds, by case."""
    path, found = folder / FILE, dict[str, Added]()
    for line in tomllib.loads(path.read_text("utf-8")).get("cells", ()) if path.exists() else ():
        cell = _CELL.fullmatch(line)
        if cell is None:
            raise DeclarationError(
                f"{path}: {line!r} is not a case, a dtype and an opset: 'elu-float32-opset18-dynamic'."
            )
        shapes = Shapes.DYNAMIC if cell["dynamic"] else Shapes.STATIC
        found.setdefault(cell["label"], Added()).add(Dtype(cell["dtype"]), shapes, int(cell["opset"]))
    return found


def line_of(label: str, dtype: Dtype, opset: int, shapes: Shapes) -> str:
    """The line that adds a cell."""
    return f"{label}-{dtype}-opset{opset}" + (f"-{shapes}" if shapes is Shapes.DYNAMIC else "")

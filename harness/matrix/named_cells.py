"""The cells that files of a folder name: `smoke.toml` those of the smoke tier, and `costly.toml` those that the default
tier runs of cases that take long.

    [cases]
    "elu" = "float32-opset18 float16-opset9-dynamic"
    "lp_pool2d[norm_type=1]" = "float64-opset9-dynamic"

By itself the smoke tier runs the cases of operators in one dtype, at one opset. That leaves out code that only other
dtypes and opsets need, and operators that are declared for the default tier. A line of `smoke.toml` says which cells of
a case the smoke tier runs instead: a dtype, an opset, and `dynamic` if its axes are; one that names none leaves the
case to the default tier, which runs all cells that the smoke tier runs. `python -m benchmarks.mutants.smoke` writes
those of this project.

An eighth of the cases would take a third of the time of the default tier. Of a case of `costly.toml` it runs the cells
that either file names; the others are left to the full tier. `python -m benchmarks.mutants.costly` writes those of this
project.

If opsets or dtypes are asked for, these decide, and cells of `smoke.toml` that have them are added.
"""

from __future__ import annotations

import itertools
import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from onnx_parity.harness.axes import Dtype, Selection, Shapes
from onnx_parity.harness.declaration_error import DeclarationError

SMOKE, COSTLY = "smoke.toml", "costly.toml"
_POINT = re.compile(rf"(?P<dtype>{'|'.join(Dtype)})-opset(?P<opset>\d+)(?P<dynamic>-{Shapes.DYNAMIC})?")


class Named:
    """The named cells of one case: opsets by dtype and shapes."""

    def __init__(self) -> None:
        self._opsets: dict[tuple[Dtype, Shapes], list[int]] = {}

    def __or__(self, other: Named) -> Named:
        """The cells of either."""
        if not other._opsets:
            return self
        both = Named()
        for (dtype, shapes), opsets in itertools.chain(self._opsets.items(), other._opsets.items()):
            for opset in opsets:
                both.add(dtype, shapes, opset)
        return both

    def add(self, dtype: Dtype, shapes: Shapes, opset: int) -> None:
        self._opsets.setdefault((dtype, shapes), []).append(opset)

    def has(self, dtype: Dtype, opset: int, shapes: Shapes) -> bool:
        return opset in self._opsets.get((dtype, shapes), ())

    def dtypes(self, selection: Selection) -> Sequence[Dtype]:
        found = dict.fromkeys(dtype for dtype, _ in self._opsets)
        return [each for each in found if selection.dtypes is None or each in selection.dtypes]

    def opsets(self, dtype: Dtype, shapes: Shapes, selection: Selection) -> Sequence[int]:
        found = self._opsets.get((dtype, shapes), ())
        return [each for each in found if selection.opsets is None or each in selection.opsets]


#: What is named of a case that a file does not have.
NOTHING = Named()


@cache
def read_named(path: Path) -> Mapping[str, Named]:
    """What a file names, by case; nothing if there is none."""
    found = dict[str, Named]()
    for label, points in _cases(path).items():
        named = found.setdefault(label, Named())
        for text in points.split() if isinstance(points, str) else [repr(points)]:
            point = _POINT.fullmatch(text)
            if point is None:
                raise DeclarationError(
                    f"{path}: {label}: {text} is not a dtype and an opset: write 'float32-opset18-dynamic'."
                )
            shapes = Shapes.DYNAMIC if point["dynamic"] else Shapes.STATIC
            named.add(Dtype(point["dtype"]), shapes, int(point["opset"]))
    return found


def _cases(path: Path) -> Mapping[str, object]:
    if not path.exists():
        return {}
    read = tomllib.loads(path.read_text("utf-8"))
    cases = read.pop("cases", {})
    if read or not isinstance(cases, dict):
        raise DeclarationError(
            f'{path}: only a table [cases] is known here, with lines such as "elu" = "float32-opset18".'
        )
    return cases


def point_of(dtype: Dtype, opset: int, shapes: Shapes) -> str:
    """A cell of a case as it is written in the file."""
    return f"{dtype}-opset{opset}" + (f"-{shapes}" if shapes is Shapes.DYNAMIC else "")

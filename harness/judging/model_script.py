"""A script of one file that shows what a runtime computes wrongly: the model as text, its inputs, what is expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnx.printer

from onnx_parity.exporter.arrays import Array, Fed
from onnx_parity.harness.axes import ONNX_REFERENCE

__all__ = ["script_of_model", "spell"]

_SCRIPT = '''"""{title}"""

import numpy as np
import onnx.parser
{imports}

MODEL = onnx.parser.parse_model("""
{model}
""")
FEEDS = {feeds}
EXPECTED = {expected}
{transformed}
got = {run}
print("got     ", *got)
print("expected", *EXPECTED)
same = [np.allclose(a, b, 1e-3, 1e-3, equal_nan=True) and a.shape == b.shape for a, b in zip(got, EXPECTED)]
raise SystemExit(not all(same))
'''


def script_of_model(
    title: str,
    model: onnx.ModelProto,
    feeds: Mapping[str, Fed],
    expected: Sequence[Array],
    *,
    runtime: str,
    imports: str = "",
    transformed: str = "",
) -> str:
    """The script, which runs the model in onnx.reference if that is the runtime, and else in onnxruntime. `transformed`
    are lines that transform `MODEL` before.
    """
    runs = "import onnxruntime", "onnxruntime.InferenceSession(MODEL.SerializeToString()).run(None, FEEDS)"
    if runtime == ONNX_REFERENCE:
        runs = "from onnx.reference import ReferenceEvaluator", "ReferenceEvaluator(MODEL).run(None, FEEDS)"
    return _SCRIPT.format(
        title=title,
        imports=imports + runs[0],
        transformed=transformed,
        model=_text(model),
        feeds="{" + ", ".join(f'"{name}": {_spell_fed(fed)}' for name, fed in feeds.items()) + "}",
        expected=f"[{', '.join(map(spell, expected))}]",
        run=runs[1],
    )


def _spell_fed(fed: Fed) -> str:
    if isinstance(fed, list):
        return f"[{', '.join(map(spell, fed))}]"
    return "None" if fed is None else spell(fed)


def spell(array: Array) -> str:
    """An array as source code."""
    text = np.array2string(array, separator=", ", threshold=10**6, max_line_width=10**6, floatmode="unique")
    text = " ".join(text.split()).replace("nan", "np.nan").replace("inf", "np.inf")
    return f"np.array({text if array.size else array.tolist()}, np.{array.dtype.name})".replace(", np.bool)", ", bool)")


def _text(model: onnx.ModelProto) -> str:
    """The model as text, without what only describes it."""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for field in ("producer_name", "producer_version", "doc_string"):
        plain.ClearField(field)
    del plain.graph.value_info[:], plain.metadata_props[:], plain.graph.metadata_props[:]
    for node in plain.graph.node:
        node.ClearField("doc_string")
        node.ClearField("name")
        del node.metadata_props[:]
    return str(onnx.printer.to_text(plain)).replace("\\", "\\\\")

"""Scripts that show a fault with nothing but torch, onnx and the culprit. They end with 1 while it is there, else 0."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import torch

from onnx_parity.exporter.arrays import to_array
from onnx_parity.harness.axes import PARITY, TORCH_DYNAMO, TORCH_SCRIPT, Capture, is_function
from onnx_parity.harness.judging.model_script import script_of_model
from onnx_parity.harness.search.probed_program import ProbedProgram
from onnx_parity.harness.search.probes import FORMS, Failure, Point, deliver
from onnx_parity.harness.subjects.delivered import Delivered

_OF_EXPORTER = '''"""{title}"""

import math

import numpy as np
import onnxruntime
import torch
import torch.nn.functional as F
{constants}
{program}

ARGUMENTS = ({arguments})
program = Program().eval()
{parts}{export}
def in_pairs(x):
    return torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x.detach()
names = [each.name for each in onnxruntime.InferenceSession("model.onnx").get_inputs()]
feeds = {{name: in_pairs(value).numpy() for name, value in zip({names}, ARGUMENTS) if name in names}}
got = onnxruntime.InferenceSession("model.onnx").run(None, feeds)
expected = [in_pairs(each).numpy() for each in program(*ARGUMENTS)]
print("got     ", *got)
print("expected", *expected)
raise SystemExit(not all(np.allclose(a, b, 1e-3, 1e-3, equal_nan=True) for a, b in zip(got, expected)))
'''
_OF_TORCH = '''"""{title}"""

import math

import torch
import torch.nn.functional as F
{constants}
{program}

ARGUMENTS = ({arguments})
# {detail}
program = Program().eval()
{parts}{check}
'''
#: How a script makes the form of a program that an exporter is given.
_FORMS = {
    Capture.TRACE: "program",
    Capture.SCRIPT: "torch.jit.script(program)",
    Capture.EXPORTED_PROGRAM: "torch.export.export(program, ARGUMENTS)",
}
_CALL = '({form}, ARGUMENTS, "model.onnx", input_names={names}, opset_version={opset}'
_EXPORTS = {
    TORCH_DYNAMO: f"torch.onnx.export{_CALL}, dynamo=True)",
    TORCH_SCRIPT: f"torch.onnx.export{_CALL}, dynamo=False)",
    PARITY: f"onnx_parity.export{_CALL})",
}


#: What transformations are called: what has to be imported, and the transformed model. `:N` is an opset.
_TRANSFORMED = {
    "onnx.parser": ("import onnx.printer", "onnx.parser.parse_model(onnx.printer.to_text(MODEL))"),
    "convert": ("import onnx.version_converter", "onnx.version_converter.convert_version(MODEL, {opset})"),
    "onnxscript:convert": (
        "import onnx_ir\nfrom onnxscript import version_converter",
        "onnx_ir.from_proto(MODEL)\nversion_converter.convert_version(MODEL, {opset}, fallback=False)\n"
        "MODEL = onnx_ir.to_proto(MODEL)",
    ),
    "onnxscript:optimize": ("import onnxscript.optimizer", "onnxscript.optimizer.optimize(MODEL)"),
    "onnxscript:rewrite": ("import onnxscript.rewriter", "onnxscript.rewriter.rewrite(MODEL)"),
    "onnxslim": ("import onnxslim", "onnxslim.slim(MODEL)"),
    "onnxsim": ("import onnxsim", "onnxsim.simplify(MODEL)[0]"),
    "onnx.shape_inference": (
        "import onnx.shape_inference",
        "onnx.shape_inference.infer_shapes(MODEL, check_type=True, strict_mode=True, data_prop=True)",
    ),
}


def _write_transformation(culprit: str) -> tuple[str, str]:
    """What a script imports to transform its model, and the line that does so; nothing, if nothing transforms it."""
    name, _, last = culprit.rpartition(":")
    if culprit in _TRANSFORMED or name in _TRANSFORMED:
        imports, call = _TRANSFORMED[culprit if culprit in _TRANSFORMED else name]
        return f"{imports}\n", f"MODEL = {call.format(opset=last)}\n"
    if is_function(culprit):
        return f"import {name}\n", f"MODEL = {name}.{last}(MODEL)\n"
    return "", ""


def script(subject: ProbedProgram, point: Point, failure: Failure, title: str) -> str:
    """The script of a reduced program."""
    program = subject.program
    if failure.culprit.startswith("torch:"):
        return _OF_TORCH.format(
            title=title, detail=failure.detail, check="print(program(*ARGUMENTS))", **_program(subject)
        )
    if failure.culprit in FORMS.values():
        ran = ".module()" if point.way_in is Capture.EXPORTED_PROGRAM else ""
        check = f"print({_FORMS[point.way_in]}{ran}(*ARGUMENTS))\nprint(program(*ARGUMENTS))"
        return _OF_TORCH.format(title=title, detail=failure.detail, check=check, **_program(subject))
    trial = failure.trial or subject.example
    delivered = deliver(subject, point)
    if failure.culprit in _EXPORTS or not isinstance(delivered, Delivered) or trial is None:
        names = [each.name for each in program.arguments]
        export = _EXPORTS[point.exporter].format(form=_FORMS[point.way_in], names=names, opset=point.opset)
        if point.exporter == PARITY:
            export = f"import onnx_parity\n{export}"
        return _OF_EXPORTER.format(title=title, export=export, names=names, **_program(subject))
    imports, transformed = _write_transformation(failure.culprit)
    return script_of_model(
        title,
        delivered.proto,
        trial.feeds,
        trial.values,
        runtime=failure.culprit,
        imports=imports,
        transformed=transformed,
    )


def _program(subject: ProbedProgram) -> dict[str, str]:
    program = subject.program
    constants = "".join(f"\n{name} = {spell_tensor(value)}" for name, value in program.constants().items())
    arguments = "".join(f"{spell_tensor(value)}, " for value in program.values())
    made = "".join(f"program.{name} = {part.source}\n" for name, part in program.parts.items())
    parts = f"from onnx_parity.harness.search.parts import declared\n{made}" if made else ""
    source = textwrap.dedent(program.source).rstrip()
    return {"constants": constants, "program": source, "arguments": arguments, "parts": parts}


def spell_tensor(tensor: torch.Tensor) -> str:
    """A tensor as source code."""
    if tensor.is_complex():
        return f"torch.view_as_complex({spell_tensor(torch.view_as_real(tensor.resolve_conj()))})"
    values = _round_values(to_array(tensor).tolist()) if tensor.dtype is not torch.bfloat16 else tensor.tolist()
    return f"torch.tensor({values}, dtype={tensor.dtype})".replace("nan", 'float("nan")').replace("inf", 'float("inf")')


def _round_values(values: object) -> object:
    """Numbers with as many digits as float32 has, which is what most of them are."""
    if isinstance(values, Sequence):
        return [_round_values(each) for each in values]
    return float(f"{values:.9g}") if isinstance(values, float) else values

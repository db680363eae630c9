"""Every public name and argument of `torch.onnx`: those of its early documentation, and those of today."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["DOCUMENTED", "GROUPS", "TORCH", "WITH_MEMBERS", "offered", "torchs"]

#: The version of torch whose names the page lists.
TORCH = "2.13"

#: The names in the documentation of the first three generations of `torch.onnx`.
DOCUMENTED: dict[str, tuple[str, ...]] = {
    "export": (
        "model", "args", "f", "export_params", "verbose", "training", "input_names", "output_names", "aten",
        "export_raw_ir", "operator_export_type", "opset_version", "_retain_param_name", "do_constant_folding",
        "example_outputs", "strip_doc_string", "dynamic_axes", "keep_initializers_as_inputs",
    ),
    "register_custom_op_symbolic": ("symbolic_name", "symbolic_fn", "opset_version"),
    "unregister_custom_op_symbolic": ("symbolic_name", "opset_version"),
    "operators.shape_as_tensor": ("x",),
    "set_training": ("model", "mode"),
    "is_in_onnx_export": (),
    "symbolic_helper.parse_args": ("arg_descriptors",),
    "symbolic_helper._scalar": ("value",),
    "symbolic_helper._if_scalar_type_as": ("arguments",),
    "OperatorExportTypes": ("ONNX", "ONNX_ATEN", "ONNX_ATEN_FALLBACK", "RAW"),
    "symbolic functions": (
        "g.op(opname, *inputs)", "g.op(name_f)", "g.op(name_i)", "g.op(name_s)", "g.op(name_t)", "g.op(lists)",
        "g.op(outputs)", "g.op(domain::name)", "value.type().sizes()", "Function.symbolic",
    ),
}  # fmt: skip

#: Functions, classes and modules of today's `torch.onnx` whose arguments or members are listed.
GROUPS = (
    "export",
    "is_in_onnx_export",
    "ONNXProgram",
    "ONNXProgram.save",
    "ONNXProgram.compute_values",
    "ONNXProgram.apply_weights",
    "ONNXProgram.initialize_inference_session",
    "ONNXProgram.rename_axes",
    "ExportableModule",
    "InputObserver",
    "OnnxExporterError",
    "errors",
    "ops",
    "ops.symbolic",
    "ops.symbolic_multi_out",
    "testing.assert_onnx_program",
    "verification",
    "verification.verify_onnx_program",
    "verification.VerificationInfo",
)
#: The members of these are listed. For all others, the arguments are.
WITH_MEMBERS = frozenset(
    {
        "ONNXProgram",
        "OperatorExportTypes",
        "errors",
        "ops",
        "symbolic functions",
        "verification",
        "verification.VerificationInfo",
    }
)
#: Only the names of these are listed, and no arguments or members.
_WHOLE = frozenset({"ExportableModule", "InputObserver", "OnnxExporterError", "is_in_onnx_export"})


def torchs() -> dict[str, tuple[str, ...]]:
    """The names and arguments of the `torch.onnx` that is installed."""
    import torch.onnx.ops
    import torch.onnx.testing
    import torch.onnx.verification

    return {group: tuple(_parts(_find(torch.onnx, group), group)) for group in GROUPS}


def offered(group: str, name: str) -> bool:
    """Whether this package has the name or argument."""
    import onnx_parity

    try:
        found = _find(onnx_parity, group)
    except AttributeError:
        return False
    if not name:
        return True
    if group in WITH_MEMBERS or inspect.isclass(found):
        return hasattr(found, name) or name in inspect.signature(found.__init__).parameters
    return name in inspect.signature(found).parameters


def _find(root: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        root = getattr(root, part)
    return root


def _parts(found: Any, group: str) -> Iterator[str]:
    if group in _WHOLE:
        return
    if isinstance(found, ModuleType):
        yield from found.__all__
    elif group in WITH_MEMBERS:
        own = [name for name in vars(found) if not name.startswith("_")]
        fields = [name for name in getattr(found, "__dataclass_fields__", ()) if name not in own]
        yield from (*fields, *own, *(["__call__"] if "__call__" in vars(found) else []))
    else:
        yield from (name for name in inspect.signature(found).parameters if name != "self")

"""The transformations that have names, and any function `module:function` from a model to a model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

from onnx_parity.exporter.arrays import Fed
from onnx_parity.exporter.runtime.sessions import CPU_PROVIDER, errors_of_missing_kernels, session_options
from onnx_parity.harness.axes import CONVERTERS, TRANSFORMATION_NAMES, converter_of
from onnx_parity.harness.one_line import one_line
from onnx_parity.harness.transformations.transformation import Apply, DeclinedError, Samples, Transformation

#: The least signal to noise, in dB, of results computed in float16 and in 8 bits. float16 has 11 bits, about 66 dB, and
#: 8 bits have about 50; the rest is for what a few operators in a row, and the ranges of small tensors, take away.
FLOAT16_FLOOR, QUANTISED_FLOOR = 40.0, 20.0

#: Operators that overflow or cancel in float16, and stay in float32 in mixed precision.
_IN_FLOAT32 = (
    "Softmax", "LogSoftmax", "LayerNormalization", "InstanceNormalization", "BatchNormalization", "GroupNormalization",
    "ReduceSum", "ReduceMean", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSumExp", "ReduceLogSum", "CumSum",
    "Exp", "Log", "Pow", "Div", "Reciprocal", "Sqrt", "Range", "Resize",
)  # fmt: skip

#: How onnx's converter says, in a failed assertion, that it cannot convert an operator.
_NO_ADAPTER = "No Adapter"


def _optimise_by_onnxruntime(level: str, model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    import onnxruntime

    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        source, path = Path(folder) / "given.onnx", Path(folder) / "optimised.onnx"
        large = model.ByteSize() > (1 << 30)
        onnx.save(model, source, save_as_external_data=large, location="given.data")
        options = session_options(one_thread=True, level=f"enable_{level}", silent=True)
        options.optimized_model_filepath = str(path)
        if large:
            options.add_session_config_entry(
                "session.optimized_model_external_initializers_file_name", "optimised.data"
            )
        try:
            onnxruntime.InferenceSession(str(source), options, providers=[CPU_PROVIDER])
        except errors_of_missing_kernels() as error:
            raise DeclinedError(one_line(str(error))) from error
        return onnx.load(path)


def _onnxslim(model: onnx.ModelProto, samples: Samples) -> object:
    import onnxslim

    return onnxslim.slim(model)


def _onnxsim(model: onnx.ModelProto, samples: Samples) -> object:
    import onnxsim

    simplified, _ = onnxsim.simplify(model)
    return simplified


def _optimise_by_onnxscript(model: onnx.ModelProto, samples: Samples) -> object:
    import onnxscript.optimizer

    return onnxscript.optimizer.optimize(model)


def _rewritten_by_onnxscript(model: onnx.ModelProto, samples: Samples) -> object:
    import onnxscript.rewriter

    return onnxscript.rewriter.rewrite(model)


def _convert_by_onnx(opset: int, model: onnx.ModelProto, samples: Samples) -> object:
    import onnx.version_converter

    try:
        return onnx.version_converter.convert_version(model, opset)
    except onnx.version_converter.ConvertError as error:
        raise DeclinedError(one_line(str(error))) from error
    except RuntimeError as error:
        if _NO_ADAPTER not in str(error):
            raise
        raise DeclinedError(one_line(str(error)[str(error).index(_NO_ADAPTER) :])) from error


def _convert_by_onnxscript(opset: int, model: onnx.ModelProto, samples: Samples) -> object:
    import onnx_ir
    from onnxscript import version_converter

    converted = onnx_ir.from_proto(model)
    before = converted.opset_imports.get("")
    version_converter.convert_version(converted, opset, fallback=False)
    if before != opset and converted.opset_imports.get("") == before:
        # It says so in a log only, and leaves the model as it is.
        raise DeclinedError(f"it cannot convert this model from opset {before} to {opset}")
    return onnx_ir.to_proto(converted)


def _in_float16(kept: tuple[str, ...], model: onnx.ModelProto, samples: Samples) -> object:
    from onnxruntime.transformers import float16
    from onnxruntime.transformers.onnx_model import OnnxModel

    blocked = [*float16.DEFAULT_OP_BLOCK_LIST, *kept]
    converted = OnnxModel(float16.convert_float_to_float16(model, keep_io_types=True, op_block_list=blocked))
    # The casts of the inputs are written last, which onnxruntime's own tools mend when they save a model.
    converted.topological_sort()
    return converted.model


def _quantise_dynamically(model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    from onnxruntime.quantization import quantize_dynamic

    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        path = Path(folder) / "quantised.onnx"
        quantize_dynamic(model, path)
        return onnx.load(path)


def _quantise_statically(form: str, model: onnx.ModelProto, samples: Samples) -> onnx.ModelProto:
    from onnxruntime.quantization import QuantFormat, quantize_static

    with tempfile.TemporaryDirectory(prefix="parity-") as folder:
        path = Path(folder) / "quantised.onnx"
        quantize_static(
            model, path, _Calibration(iter([dict(feeds) for feeds in samples])), quant_format=QuantFormat[form]
        )
        return onnx.load(path)


@dataclass
class _Calibration:
    """The inputs of the cell, as onnxruntime's quantiser takes what it measures ranges with."""

    feeds: Iterator[dict[str, Fed]]

    def get_next(self) -> dict[str, Fed] | None:
        return next(self.feeds, None)

    def __iter__(self) -> _Calibration:
        return self

    def __next__(self) -> dict[str, Fed]:
        return next(self.feeds)


def _apply_function(name: str, model: onnx.ModelProto, samples: Samples) -> object:
    module, _, path = name.partition(":")
    function: Any = import_module(module)
    for part in path.split("."):
        function = getattr(function, part)
    return function(model)


class Transformations(dict[str, Transformation]):
    """Transformations by name: those of the harness, and converters and functions once they have been looked up."""

    def __missing__(self, name: str) -> Transformation:
        if ":" not in name:
            raise KeyError(name)
        return self.setdefault(name, _converter(name) or _function(name))


def _converter(name: str) -> Transformation | None:
    found = converter_of(name)
    if found is None:
        return None
    kind, opset = found
    convert, package = _CONVERTED_BY[kind]
    tracker = TRACKERS[package]
    return Transformation(name, partial(convert, opset), package, (package,), tracker=tracker, opset=opset)


def _function(name: str) -> Transformation:
    module = name.partition(":")[0]
    return Transformation(name, partial(_apply_function, name), module, (module.partition(".")[0],), "install it")


_CONVERTED_BY = {
    "convert": (_convert_by_onnx, "onnx"),
    "onnxscript:convert": (_convert_by_onnxscript, "onnxscript"),
}
assert tuple(_CONVERTED_BY) == CONVERTERS
#: Where errors of a distribution are reported.
TRACKERS = {
    "onnx": "https://github.com/onnx/onnx/issues",
    "onnxruntime": "https://github.com/microsoft/onnxruntime/issues",
    "onnxscript": "https://github.com/microsoft/onnxscript/issues",
    "torch": "https://github.com/pytorch/pytorch/issues",
    "onnxslim": "https://github.com/inisis/OnnxSlim/issues",
    "onnxsim": "https://github.com/onnxsim/onnxsim/issues",
}


def _named(name: str, apply: Apply, package: str, floor: float | None = None) -> Transformation:
    return Transformation(name, apply, package, (package,), tracker=TRACKERS[package], floor=floor)


_ALL = (
    *(
        _named(f"ort:{level}", partial(_optimise_by_onnxruntime, level), "onnxruntime")
        for level in ("basic", "extended", "layout", "all")
    ),
    _named("onnxslim", _onnxslim, "onnxslim"),
    _named("onnxsim", _onnxsim, "onnxsim"),
    _named("onnxscript:optimize", _optimise_by_onnxscript, "onnxscript"),
    _named("onnxscript:rewrite", _rewritten_by_onnxscript, "onnxscript"),
    _named("float16", partial(_in_float16, ()), "onnxruntime", FLOAT16_FLOOR),
    _named("float16:mixed", partial(_in_float16, _IN_FLOAT32), "onnxruntime", FLOAT16_FLOOR),
    _named("quantize:dynamic", _quantise_dynamically, "onnxruntime", QUANTISED_FLOOR),
    _named("quantize:qdq", partial(_quantise_statically, "QDQ"), "onnxruntime", QUANTISED_FLOOR),
    _named("quantize:qoperator", partial(_quantise_statically, "QOperator"), "onnxruntime", QUANTISED_FLOOR),
)
assert tuple(each.name for each in _ALL) == TRANSFORMATION_NAMES
TRANSFORMATIONS = Transformations((each.name, each) for each in _ALL)

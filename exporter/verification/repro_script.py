"""Runs the model of a failure bundle and compares its outputs with torch's. It is copied into each bundle.

It needs numpy, onnx (which brings ml_dtypes) and the runtime; nothing of the project, unless there is no model because
the export itself failed, or bundle.json names a function, `runner`, that runs the model. Exit codes: 0 if it passes
now; 1 if it still fails.
"""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

HERE = Path(__file__).resolve().parent


def main() -> int:
    bundle = json.loads((HERE / "bundle.json").read_text(encoding="utf-8"))
    print(bundle["title"])
    if not (HERE / "model.onnx").exists():
        print("\nThere is no model. In the folder of the declarations, this exports it again:", flush=True)
        return subprocess.call([sys.executable, "-m", "pytest", *bundle["again"]])
    inputs = dict(read_inputs())
    wanted = read_outputs()
    got = item_by_item(run(bundle["runtime"], bundle.get("runner", ""), inputs))
    allowed = np.load(HERE / "allowed.npz")
    faults = [f"{len(got)} outputs instead of {len(wanted)}"] if len(got) != len(wanted) else []
    for number, (array, right) in enumerate(zip(got, wanted, strict=False)):
        if bundle.get("floor") is not None and array.dtype.kind == right.dtype.kind == "f":
            fault = compare_signal(array, right, bundle["floor"])
        else:
            parts = (allowed.get(f"{part}_{number}") for part in ("centre", "tolerance", "zeros"))
            fault = compare(array, right, *parts)
        if fault:
            faults.append(f"output {number} {fault}")
    print("\n" + ("\n".join(faults) or "It holds."))
    return 1 if faults else 0


def read_inputs() -> list[tuple[str, Any]]:
    """The inputs by name: tensors, lists of tensors for sequences, and a tensor or None for an optional."""
    graph = onnx.load(HERE / "model.onnx", load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    found: list[tuple[str, Any]] = []
    for number, value in enumerate(value for value in graph.input if value.name not in weights):
        data = (HERE / "test_data_set_0" / f"input_{number}.pb").read_bytes()
        if value.type.HasField("sequence_type"):
            found.append((value.name, numpy_helper.to_list(onnx.SequenceProto.FromString(data))))
        elif value.type.HasField("optional_type"):
            found.append((value.name, numpy_helper.to_optional(onnx.OptionalProto.FromString(data))))
        else:
            found.append((value.name, numpy_helper.to_array(onnx.TensorProto.FromString(data))))
    return found


def item_by_item(outputs: list[Any]) -> list[Any]:
    """The outputs as a flat list, in which torch's results are stored: sequences contribute their items, and empty
    optionals nothing."""
    every = [item for output in outputs for item in (output if isinstance(output, list) else [output])]
    return [item for item in every if item is not None]


def read_outputs() -> list[Any]:
    folder = HERE / "test_data_set_0"
    count = len(list(folder.glob("output_*.pb")))
    data = [(folder / f"output_{number}.pb").read_bytes() for number in range(count)]
    return [numpy_helper.to_array(onnx.TensorProto.FromString(each)) for each in data]


def run(runtime: str, runner: str, inputs: dict[str, Any]) -> list[Any]:
    path = HERE / "model.onnx"
    if runner:
        module, _, name = runner.partition(":")
        return list(getattr(importlib.import_module(module), name)(runtime, path, inputs))
    if runtime.startswith("backend:"):
        backend = importlib.import_module(runtime.removeprefix("backend:"))
        return [np.asarray(output) for output in backend.prepare(onnx.load(path), "CPU").run(list(inputs.values()))]
    if runtime == "onnx.reference":
        from onnx.reference import ReferenceEvaluator

        return list(ReferenceEvaluator(onnx.load(path)).run(None, inputs))
    return run_onnxruntime(path, runtime.partition(":")[2], inputs)


def run_onnxruntime(path: Path, level: str, inputs: dict[str, Any]) -> list[Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if level:
        name = "ORT_DISABLE_ALL" if level == "none" else f"ORT_ENABLE_{level.upper()}"
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, name)
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    if all(end.type != "tensor(bfloat16)" for end in (*session.get_inputs(), *session.get_outputs())):
        return list(session.run(None, inputs))
    feeds = {}
    for name, array in inputs.items():
        if array.dtype.name == "bfloat16":
            bits, kind = np.array(array).view(np.uint16), onnx.TensorProto.BFLOAT16
            feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, kind)
        else:
            feeds[name] = onnxruntime.OrtValue.ortvalue_from_numpy(array)
    return [from_ort(value) for value in session.run_with_ort_values(None, feeds)]


def from_ort(value: Any) -> Any:
    """The array of a value of onnxruntime. numpy has no bfloat16, which onnxruntime only converts through torch."""
    if value.data_type() != "tensor(bfloat16)":
        return value.numpy()
    import ml_dtypes
    import torch.utils.dlpack

    tensor = torch.utils.dlpack.from_dlpack(vars(value)["_ortvalue"].to_dlpack())
    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


def compare_signal(got: Any, right: Any, floor: float) -> str:
    """Describe what is wrong with an output of a model in fewer bits: the ratio of signal to noise, in dB."""
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"is {got.dtype} of shape {got.shape} instead of {right.dtype} of shape {right.shape}"
    wide, exact = got.astype(np.float64), right.astype(np.float64)
    if not np.array_equal(np.isfinite(wide), np.isfinite(exact)):
        return "differs in the positions of NaN and infinities"
    finite = np.isfinite(exact)
    signal, noise = np.square(exact[finite]).sum(), np.square(wide[finite] - exact[finite]).sum()
    ratio = 10.0 * np.log10(signal / noise) if noise and signal else -np.inf if noise else np.inf
    return "" if ratio >= floor else f"has {ratio:.1f} dB of signal to noise, and the floor is {floor:g} dB"


def compare(got: Any, right: Any, centre: Any, tolerance: Any, zeros: Any) -> str:
    """Describe what is wrong with an output. Floats have a tolerance for each element; other dtypes must be equal."""
    if not isinstance(got, np.ndarray):
        return f"is a {type(got).__name__} instead of a tensor"
    if (got.dtype, got.shape) != (right.dtype, right.shape):
        return f"is {got.dtype} of shape {got.shape} instead of {right.dtype} of shape {right.shape}"
    if centre is None or tolerance is None:
        wrong = np.asarray(got != right)
    else:
        with np.errstate(all="ignore"):
            wide, exact = got.astype(np.float64), right.astype(np.float64)
            same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
            near = np.isfinite(wide) & np.isfinite(exact) & (np.abs(wide - centre) <= tolerance)
            wrong = ~(same | near)
            if zeros is not None:
                wrong |= zeros & (wide == 0) & (np.signbit(wide) != np.signbit(exact))
    if not wrong.any():
        return ""
    place = np.unravel_index(int(wrong.ravel().argmax()), wrong.shape)
    at = tuple(int(each) for each in place)
    return f"at {at}: {got[place]} instead of {right[place]}; {int(wrong.sum())} of {wrong.size} elements"


if __name__ == "__main__":
    sys.exit(main())

"""Times how fast onnxruntime loads exported models, and its memory: `python -m benchmarks.latency.loading`.

Needs transformers, and onnxscript for torch.onnx. The models have their usual sizes, and random weights.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import onnxruntime
import torch
import typer

import onnx_parity
from benchmarks.child import memory, settled_memory
from benchmarks.options import choose

__all__ = ["Cost", "cost_of", "session_of"]

_MODELS: Mapping[str, str] = {"bert": "AutoModel", "gpt2": "AutoModelForCausalLM"}
_OPSET = 18


class Cost(NamedTuple):
    seconds: float
    #: The most bytes that a process had which loaded the file once.
    peak: int = 0


def main(
    models: Annotated[list[str] | None, typer.Option(help="Architectures by their names or patterns.")] = None,
) -> None:
    """Load a model whose weights are in the same file, in a second file, and the files of torch.onnx, with two threads.

    A time is the shortest of five; a ratio is to the model in one file.
    """
    warnings.simplefilter("ignore")
    import_module("onnx_parity.model_zoo.torchvision_import")
    for name in choose("--models", models, _MODELS):
        with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
            first = None
            for form, path in _written(name, Path(folder)).items():
                found = cost_of(path)
                first = first or found.seconds
                figures = f"{found.seconds:>8.3f} s {found.peak / 1e6:>8.0f} MB {found.seconds / first:>8.2f}"
                print(f"{name:<8}{form:<16}{figures}", flush=True)


def _written(name: str, folder: Path) -> Mapping[str, Path]:
    transformers = import_module("transformers")
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name)
    model = getattr(transformers, _MODELS[name]).from_config(config).eval()
    tokens = torch.randint(3, 99, (2, 16))
    arguments = {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        **({"use_cache": False} if name == "gpt2" else {}),
    }
    paths = {}
    for form in ("one file", "two files", "torch.onnx"):
        paths[form] = folder / form.replace(" ", "-") / "model.onnx"
        paths[form].parent.mkdir()
    program = onnx_parity.export(model, kwargs=arguments, opset_version=_OPSET)
    program.save(paths["one file"])
    program.save(paths["two files"], external_data=True)
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        torch.onnx.export(model, (), str(paths["torch.onnx"]), kwargs=arguments, opset_version=_OPSET, dynamo=True)
    return paths


def session_of(path: Path, threads: int = 2) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def cost_of(path: Path, then: Callable[[onnxruntime.InferenceSession], Any] | None = None) -> Cost:
    """What loading a file costs in a process of its own. The memory includes what is done with the session then."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_load, path, then).result()


def _load(path: Path, then: Callable[[onnxruntime.InferenceSession], Any] | None) -> Cost:
    settled_memory()
    session = session_of(path)
    if then is not None:
        then(session)
    peak = memory("VmHWM")
    del session
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        session_of(path)
        seconds.append(time.perf_counter() - start)
    return Cost(min(seconds), peak)


if __name__ == "__main__":
    typer.run(main)

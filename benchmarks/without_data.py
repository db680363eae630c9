"""Exports Llama 7B without holding its weights: `python -m benchmarks.without_data`. Needs transformers.

The weights are on the meta device, and the model refers to the safetensors files that would hold them. These have all
names, dtypes and shapes of a real checkpoint, but no data: they are sparse and take no room on the disk.
"""

from __future__ import annotations

import json
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import onnx
import torch
import typer

import onnx_parity
from benchmarks.child import memory

#: The most seconds and bytes that the export of seven billion weights may take, the process itself included.
SECONDS, BYTES = 60.0, 2_000_000_000
#: The weights in each file, in the order of the state dict.
_PER_FILE = 100


def main(
    layers: Annotated[int, typer.Option(help="The number of layers; Llama 7B has 32.")] = 32,
    opset: Annotated[int, typer.Option(help="The opset of the model.")] = 21,
    weight_bits: Annotated[int | None, typer.Option(help="4 or 8: store the weights of products as integers.")] = None,
) -> None:
    """Export Llama 7B from the meta device, and measure time and memory. Exits with 1 if a target is missed."""
    if find_spec("transformers") is None:
        raise typer.BadParameter("transformers is not installed: install the extra 'zoo'")
    model = _llama(layers)
    weights = {name: tensor for name, tensor in model.state_dict().items() if tensor.is_meta}
    example = {"input_ids": torch.randint(1000, (2, 9)), "use_cache": False}
    shapes = {"input_ids": {0: "batch", 1: "sequence"}, "use_cache": None}
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as folder:
        path = Path(folder) / "llama.onnx"
        files = write_empty_files(weights, Path(folder))
        start = time.perf_counter()
        onnx_parity.export(
            model, kwargs=example, f=path, dynamic_shapes=shapes, opset_version=opset,
            external_data=onnx_parity.ExternalData(safetensors=files), weight_bits=weight_bits,
        )  # fmt: skip
        seconds, peak = time.perf_counter() - start, memory("VmHWM")
        found = len(referred_to(path, files))
        written = sum(each.stat().st_size for each in Path(folder).glob("llama.onnx*"))
    size = sum(tensor.nbytes for tensor in weights.values())
    wanted = 0 if weight_bits else len(weights)
    print(f"{size / 1e9:.1f} GB of weights in {len(files)} files; {found} of {wanted} are referred to there")
    # Integers are made from the weights, which takes longer than to refer to them.
    limit = SECONDS * (4 if weight_bits else 1)
    print(f"export: {seconds:.1f} s; at most {limit:g} s")
    print(f"memory of the whole process: {peak / 1e9:.2f} GB; at most {BYTES / 1e9:g} GB")
    print(f"written: {written / 1e6:.1f} MB")
    if found != wanted or seconds > limit or peak > BYTES:
        raise typer.Exit(1)


def _llama(layers: int) -> Any:
    # transformers imports torchvision, which only some builds of torch can import without help.
    import_module("onnx_parity.model_zoo.torchvision_import")
    transformers = import_module("transformers")
    config = transformers.LlamaConfig(num_hidden_layers=layers, dtype="float16")
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).half().eval()
    # It computes its frequencies when it is made, and checkpoints do not have them.
    model.model.rotary_emb = type(model.model.rotary_emb)(config)
    return model


def write_empty_files(weights: dict[str, torch.Tensor], folder: Path) -> list[Path]:
    """Safetensors files for these weights, with their headers and as long as with data."""
    names = list(weights)
    files = []
    for number, first in enumerate(range(0, len(names), _PER_FILE)):
        header, end = {}, 0
        for name in names[first : first + _PER_FILE]:
            tensor = weights[name]
            start, end = end, end + tensor.nbytes
            dtype = {torch.float16: "F16", torch.float32: "F32"}[tensor.dtype]
            header[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [start, end]}
        text = json.dumps(header).encode()
        files.append(folder / f"model-{number + 1:05}.safetensors")
        with files[-1].open("wb") as file:
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + end)
    return files


def referred_to(path: Path, files: list[Path]) -> set[str]:
    """The weights of a model that it refers to in these files."""
    locations = {file.name for file in files}
    return {
        weight.name
        for weight in onnx.load(path, load_external_data=False).graph.initializer
        if any(entry.key == "location" and entry.value in locations for entry in weight.external_data)
    }


if __name__ == "__main__":
    typer.run(main)

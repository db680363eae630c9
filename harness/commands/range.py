"""`parity range`: which values of a model halves cannot hold, and the mixed model that computes the same."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnx_parity.harness.commands.model_source import InputText, SourceError, check_number_of_inputs, load_program
from onnx_parity.harness.commands.show import NotAModelError, load_model
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch

    from onnx_parity.harness.halves.finding import Ranges

__all__ = ["range_of_values"]

#: The size of dynamic axes for which no --input is given, and the most lines of a list without --all.
_SIZE, _LISTED = 8, 20
_TORCH_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


def range_of_values(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="An ONNX file, or package.module:name as for `parity export`.")
    ],
    input: Annotated[
        list[str] | None,
        typer.Option("--input", "-i", help="An input of a program, or by its name of a file: ids=1x16:int64<30522."),
    ] = None,
    samples: Annotated[
        list[Path] | None,
        typer.Option("--samples", "-s", help="A .npz file with an array for each input by its name: one sample."),
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="How many samples are generated if none is given.")] = 4,
    half: Annotated[str, typer.Option(help="The dtype of the mixed model: float16 or bfloat16.")] = "float16",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The file of the mixed model.")] = None,
    opset: Annotated[int | None, typer.Option(help="The ONNX opset, if MODEL is a program.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A state dict for a program: .pt or .safetensors.")] = None,
    every: Annotated[bool, typer.Option("--all", help="List every value with its magnitudes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print all that was found as JSON.")] = False,
) -> None:
    """Find the values inside a float32 model that float16 and bfloat16 cannot hold, and write it in half without them.

    The model is run in float32 on samples. A value that is too large for float16 becomes infinite there, and the
    outputs can be wrong without an infinity in them: x / x.sum() is zero then. Each such value is named with its module
    and source line, if the file has them, and so is each node that must stay in float32.

    With `--output`, the model is written with all other nodes in half and as few casts as possible. It is compared with
    the float32 model on the samples first. Its inputs and outputs stay float32.

    Samples should be real inputs: generated ones are drawn from a normal distribution and as integers below the bound
    of --input, and need not reach the magnitudes that real ones do.

    Exit codes: 0 if the half holds every value; 1 if it does not, or the mixed model is wrong; 2 if the command was
    used wrongly or the model cannot be run.

    Examples:

        parity range model.onnx --samples batch1.npz --samples batch2.npz

        parity range model.onnx -i "ids=1x16:int64<30522" --output mixed.onnx

        parity range torchvision.models:resnet18 -i x=1x3x224x224 --half bfloat16 --json
    """
    from onnx_parity.exporter.files import write
    from onnx_parity.harness.halves.finding import CannotMeasureError, find_ranges
    from onnx_parity.harness.halves.ranges import HALVES

    if half not in HALVES:
        refuse(f"--half {half}: write {' or '.join(HALVES)}.")
    try:
        given = [InputText.parse(text) for text in input or ()]
        graph, wanted = _model_of(model, given, opset, weights)
        feeds = [_read(path) for path in samples] if samples else _generated(wanted, count)
        found, mixed = find_ranges(graph, feeds, half)
    except (SourceError, CannotMeasureError) as error:
        refuse(str(error))
    if output is not None and not found.wrong:
        write.write_file(mixed, output, None)
    if as_json:
        print_json(found)
    else:
        _print(found, every=every)
        if output is not None:
            print_text(f"not written: {found.wrong}" if found.wrong else f"written: {output}")
    raise typer.Exit(1 if found.not_held or found.wrong else 0)


def _print(found: Ranges, *, every: bool) -> None:
    samples = f"{found.samples} sample{'' if found.samples == 1 else 's'}"
    print_text(f"{len(found.values)} float32 values measured on {samples}")
    for half, first in found.first.items():
        what = "holds all of them" if first is None else f"cannot hold {first}: it has {first.largest:.4g}"
        print_text(f"{half:<9} {what}")
    listed = found.values if every else found.not_held
    for each in listed if every else listed[:_LISTED]:
        print_text(f"  {each.smallest:9.3g} to {each.largest:9.3g}  {each.fit(found.half):<9}  {each}")
    if len(listed) > _LISTED and not every:
        print_text(f"  {len(listed) - _LISTED} more: --all lists all values.")
    for node in found.kept if every else found.kept[:_LISTED]:
        place = " in ".join(part for part in (node.line and f"at {node.line}", node.module) if part)
        print_text(f"must stay float32: {node.operator}{f' {place}' if place else ''}, {node.reason}")
    if len(found.kept) > _LISTED and not every:
        print_text(f"{len(found.kept) - _LISTED} more nodes must stay float32.")
    ratio = "no noise" if found.signal_to_noise is None else f"{found.signal_to_noise:.1f} dB of signal to noise"
    print_text(
        f"mixed model: {found.nodes_in_half} nodes in {found.half}, {found.nodes_in_float32} in float32, "
        f"{found.casts} casts; {found.wrong or f'its outputs have {ratio}'}"
    )


def _model_of(
    where: str, given: Sequence[InputText], opset: int | None, weights: Path | None
) -> tuple[ir.Model | Path, list[InputText]]:
    """The ONNX model of a file or of a program, and the inputs that samples are generated for."""
    if where.endswith(".onnx"):
        path = Path(where)
        if not path.is_file():
            raise SourceError(f"{path} cannot be read: there is no such file.")
        return path, _inputs_of(path, given)
    import torch

    import onnx_parity

    program = load_program(where, weights)
    check_number_of_inputs(where, program, len(given))
    generator = torch.Generator().manual_seed(0)
    tensors = tuple(each.make(generator) for each in given)
    try:
        exported = onnx_parity.export(
            program, tensors, opset_version=opset, input_names=[each.name for each in given], strip_doc_string=False
        )
    except onnx_parity.ExportError as error:
        raise SourceError(f"{where} cannot be exported: {error}") from error
    return exported.model, [
        InputText(name, each.shape, each.dtype, each.bound)
        for name, each in zip(exported.input_names, given, strict=True)
    ]


def _inputs_of(path: Path, given: Sequence[InputText]) -> list[InputText]:
    """The inputs of a file, those that are given as they are given."""
    by_name = {each.name: each for each in given}
    try:
        graph = load_model(path).graph
    except NotAModelError as error:
        raise SourceError(f"{path} cannot be read: {error}.") from None
    inputs = [value for value in graph.inputs if not value.is_initializer()]
    unknown = sorted(by_name.keys() - {value.name for value in inputs})
    if unknown:
        names = ", ".join(value.name or "" for value in inputs)
        raise SourceError(f"--input {unknown[0]}: {path} has no such input. Its inputs are {names}.")
    wanted = []
    for value in inputs:
        name = value.name or ""
        if name not in by_name and (value.shape is None or value.dtype is None):
            raise SourceError(f"{path} does not declare the sizes of {name}: give --input {name}=SIZES, or --samples.")
        sizes = tuple(size if isinstance(size, int) else _SIZE for size in value.shape or ())
        dtype = "" if value.dtype is None else _TORCH_NAMES.get(value.dtype.name, value.dtype.name.lower())
        wanted.append(by_name.get(name) or InputText(name, sizes, dtype, 2))
    return wanted


def _generated(wanted: Sequence[InputText], count: int) -> list[dict[str, torch.Tensor]]:
    import torch

    generator = torch.Generator().manual_seed(0)
    return [{each.name: each.make(generator, normal=True) for each in wanted} for _ in range(count)]


def _read(path: Path) -> dict[str, object]:
    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, AttributeError, TypeError) as error:
        raise SourceError(f"--samples {path} cannot be read: write it with numpy.savez(path, NAME=array).") from error

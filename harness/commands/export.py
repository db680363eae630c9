"""`parity export`: exports a PyTorch model to an ONNX file."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from onnx_parity.harness.commands.model_source import (
    InputText,
    SourceError,
    check_number_of_inputs,
    dynamic_axes,
    load_program,
)
from onnx_parity.harness.commands.terminal import print_json, print_text, refuse

if TYPE_CHECKING:
    import torch

    import onnx_parity

__all__ = ["export"]


@dataclass(frozen=True)
class _Request:
    """The arguments of the command line."""

    program: Callable[..., Any]
    inputs: tuple[torch.Tensor, ...]
    input_names: Sequence[str]
    output: Path
    opset: int | None
    dynamic_axes: Mapping[str, Mapping[int, str]]
    output_names: Sequence[str] | None
    training: bool
    fallback: bool
    external_data: bool
    strict: bool
    verify: bool
    assume: Sequence[str]
    prints_graph: bool


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="package.module:name, or file.py:name. The name is a torch.nn.Module, a function of tensors, or a "
            "class or function that creates one when it is called without arguments.",
        ),
    ],
    input: Annotated[
        list[str] | None,
        typer.Option(
            "--input", "-i", help="An input, once for each in their order: 1x3x224x224, x=1x3x224x224, ids=1x16:int64."
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("model.onnx"),
    opset: Annotated[int | None, typer.Option(help="The ONNX opset of the model.")] = None,
    dynamic: Annotated[
        list[str] | None, typer.Option("--dynamic", "-d", help="A dynamic axis and its name: x:0=batch.")
    ] = None,
    output_name: Annotated[
        list[str] | None, typer.Option(help="The name of an output, once for each in their order.")
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="A state dict to load into the model before the export: .pt or .safetensors.")
    ] = None,
    training: Annotated[
        bool, typer.Option("--training", help="Export the model in training mode instead of evaluation mode.")
    ] = False,
    fallback: Annotated[
        bool,
        typer.Option(
            "--fallback", help="Export operators that have no ONNX equivalent as ATen operators instead of failing."
        ),
    ] = False,
    external_data: Annotated[
        bool, typer.Option("--external-data", help="Write the weights to a separate file.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail if the model reads values of tensors in Python, such as in a condition."),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Run the model in onnxruntime, and write it only if its outputs equal PyTorch's."
        ),
    ] = False,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            help="A condition that always holds, over the names of dynamic axes: --assume 'height % 8 == 0'. Repeat it "
            "for several."
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the exported graph.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was written, or the error, as JSON.")] = False,
) -> None:
    """Export a PyTorch model to an ONNX file.

    Inputs are written as sizes joined by `x`, with an optional name and dtype. Their values are random: floating-point
    numbers between 0 and 1; integers 0 and 1, or from 0 up to the bound that `<` sets: `ids=1x16:int64<30522`.

    Exit codes: 0 if the file was written; 1 if the model cannot be exported or its outputs are wrong; 2 if the command
    was used wrongly or the file cannot be written.

    Examples:

        parity export torchvision.models:resnet18 -i x=1x3x224x224 -o resnet18.onnx --verify

        parity export my_models:Net --input 1x3x64x64 --dynamic x:0=batch --dynamic x:2=height --opset 13

        parity export my_models:Bert -i "ids=1x16:int64<30522" -d ids:1=sequence --weights bert.safetensors

        parity export my_models:net --input 8x10 --show && parity show model.onnx
    """
    import torch

    import onnx_parity

    generator = torch.Generator().manual_seed(0)
    try:
        given = [InputText.parse(text) for text in input or ()]
        axes = dynamic_axes(dynamic or ())
        program = load_program(model, weights)
        check_number_of_inputs(model, program, len(given))
        tensors = tuple(each.make(generator) for each in given)
    except SourceError as error:
        refuse(str(error))
    names = [each.name for each in given]
    request = _Request(
        program, tensors, names, output, opset, axes, output_name, training, fallback, external_data, strict, verify,
        assume or (), prints_graph=show and not as_json,
    )  # fmt: skip
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # On a command line, a name that does not exist is misspelt.
        warnings.filterwarnings("error", message="dynamic_axes names ")
        try:
            exported = _export_program(request)
        except UserWarning as error:
            wrong = str(error).removeprefix("dynamic_axes ").partition(", and is ignored")[0]
            refuse(f"--dynamic {wrong}. Inputs are named as in --input x=1x3, and outputs with --output-name.")
        except onnx_parity.ExportError as error:
            _end_with(error, _messages_of(caught), as_json=as_json)
        except SystemExit as error:  # Raised by the user's code, such as a lowering. It would end the command silently.
            print_text(f"the export ended the process with {error.code}, and nothing was written.", error=True)
            raise typer.Exit(1) from None
    _report(request, exported, _messages_of(caught), time.perf_counter() - start, as_json=as_json)


def _messages_of(caught: Sequence[warnings.WarningMessage]) -> list[str]:
    """The texts of the warnings of the exporter, without those of libraries."""
    from onnx_parity.exporter.errors import OnnxExporterWarning

    return [str(warning.message) for warning in caught if issubclass(warning.category, OnnxExporterWarning)]


def _export_program(request: _Request) -> onnx_parity.ONNXProgram:
    import onnx_parity
    from onnx_parity.exporter.torch_inside.frames import stop_at

    # Messages name lines of the user's model, and not of this file or its callers.
    stop_at(sys._getframe().f_code)
    as_aten = onnx_parity.OperatorExportTypes.ONNX_ATEN_FALLBACK
    return onnx_parity.export(
        request.program,
        request.inputs,
        request.output,
        verbose=request.prints_graph,
        training=request.training,
        input_names=list(request.input_names) if all(request.input_names) else None,
        output_names=request.output_names,
        operator_export_type=as_aten if request.fallback else None,
        opset_version=request.opset,
        dynamic_axes=request.dynamic_axes or None,
        external_data=request.external_data or None,
        verify=request.verify,
        strict=request.strict,
        assume=list(request.assume),
    )


def _end_with(error: onnx_parity.ExportError, messages: Sequence[str], *, as_json: bool) -> NoReturn:
    import onnx_parity

    if as_json:
        print_json({"error": type(error).__name__, "reason": str(error), "warnings": messages})
    else:
        for message in messages:
            print_text(f"warning: {message}", error=True)
        print_text(f"{type(error).__name__}: {error}", error=True)
    used_wrongly = isinstance(error, onnx_parity.ArgumentError | onnx_parity.OpsetError | onnx_parity.WriteError)
    raise typer.Exit(2 if used_wrongly else 1) from None


def _report(
    request: _Request, exported: onnx_parity.ONNXProgram, messages: Sequence[str], seconds: float, *, as_json: bool
) -> None:
    if as_json:
        print_json(
            {
                "path": str(request.output),
                "opset": exported.opset_version, "seconds": seconds, "verified": request.verify, "warnings": messages,
            }
        )  # fmt: skip
        return
    for message in messages:
        print_text(f"warning: {message}", error=True)
    verified = ", verified in onnxruntime" if request.verify else ""
    print_text(f"{request.output}: {exported!r}, {seconds:.2f} s{verified}")

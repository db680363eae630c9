"""`parity export`: a model of Python to an ONNX file."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from onnx_parity.harness.commands.model_source import InputText, SourceError, dynamic_axes, load_program

__all__ = ["export"]


def export(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="package.module:name: a module, a function of tensors, or what makes one."
        ),
    ],
    input: Annotated[
        list[str] | None, typer.Option("--input", "-i", help="An input, in order: 1x3x224x224, ids=1x16:int64<100.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where to write.")] = Path("model.onnx"),
    opset: Annotated[int | None, typer.Option(help="The opset to deliver.")] = None,
    dynamic: Annotated[
        list[str] | None, typer.Option("--dynamic", "-d", help="An axis that varies: x:0=batch.")
    ] = None,
    output_name: Annotated[list[str] | None, typer.Option(help="A name for an output, in order.")] = None,
    weights: Annotated[Path | None, typer.Option(help="A state dict to load first: .pt or .safetensors.")] = None,
    training: Annotated[bool, typer.Option("--training", help="In training mode rather than in evaluation.")] = False,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="What ONNX has no form for is left to torch, rather than refused.")
    ] = False,
    external_data: Annotated[bool, typer.Option("--external-data", help="Weights in a file of their own.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a program that looks at values.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Run it, and write only what gives what torch gives.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the graph.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="What was written, or why nothing was, as JSON.")] = False,
) -> None:
    """Export a model to an ONNX file.

    Inputs are drawn: numbers between 0 and 1, ints 0 and 1, or below what `<` says. Exit code: 0 where the file was
    written, 1 where the model cannot be exported or is not right, 2 where the command was used wrongly or cannot write.

    Examples:

        parity export torchvision.models:resnet18 -i x=1x3x224x224 -o resnet18.onnx --verify

        parity export my_models:Net --input 1x3x64x64 --dynamic x:0=batch --dynamic x:2=height --opset 13

        parity export my_models:Bert -i "ids=1x16:int64<30522" -d ids:1=sequence --weights bert.safetensors

        parity export my_models:net --input 8x10 --show && parity show model.onnx
    """
    import torch

    import onnx_parity
    from onnx_parity.exporter.capture.graph.origin import stop_at

    stop_at(sys._getframe().f_code)
    generator = torch.Generator().manual_seed(0)
    try:
        given = [InputText.parse(text) for text in input or ()]
        axes = dynamic_axes(dynamic or ())
        program = load_program(model, weights)
        tensors = tuple(each.make(generator) for each in given)
    except SourceError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    names = [each.name for each in given]
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exported = onnx_parity.export(
                program,
                tensors,
                output,
                verbose=show and not as_json,
                training=training,
                input_names=names if all(names) else None,
                output_names=output_name,
                operator_export_type=onnx_parity.OperatorExportTypes.ONNX_ATEN_FALLBACK if fallback else None,
                opset_version=opset,
                dynamic_axes=axes or None,
                external_data=external_data or None,
                verify=verify,
                strict=strict,
            )
        except onnx_parity.ExportError as error:
            if as_json:
                typer.echo(msgspec.json.encode({"error": type(error).__name__, "reason": str(error)}))
            else:
                typer.echo(f"{type(error).__name__}: {error}", err=True)
            used_wrongly = isinstance(
                error, onnx_parity.ArgumentError | onnx_parity.OpsetError | onnx_parity.WriteError
            )
            raise typer.Exit(2 if used_wrongly else 1) from None
    seconds = time.perf_counter() - start
    ours = onnx_parity.TracerWarning | onnx_parity.DroppedWriteWarning
    said = [str(warning.message) for warning in caught if issubclass(warning.category, ours)]
    if as_json:
        told = {"path": str(output), "opset": exported.opset_version, "seconds": seconds, "verified": verify}
        typer.echo(msgspec.json.encode({**told, "warnings": said}))
        return
    for warned in said:
        typer.echo(f"warning: {warned}", err=True)
    verified = ", verified in onnxruntime" if verify else ""
    typer.echo(f"{output}: {exported!r}, {seconds:.2f} s{verified}")

"""`parity show`: what is in an ONNX file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["show"]


def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    graph: Annotated[bool, typer.Option(help="Print the graph, not only sizes and counts.")] = True,
) -> None:
    """Print an ONNX file: its graph with types and shapes, how large it is, which operators it is made of.

    A file exported with `strip_doc_string=False` shows each node's source line too. Weights are not read.

    Examples:

        parity show model.onnx

        parity show model.onnx --no-graph
    """
    import onnx_ir as ir
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from exporter.show import printed

    if not path.is_file():
        typer.echo(f"{path}: {'it is a folder' if path.is_dir() else 'there is no such file'}", err=True)
        raise typer.Exit(2)
    try:
        model = ir.load(path)
        if not model.ir_version:  # Protobuf reads no bytes as a message with nothing in it.
            raise DecodeError
    except DecodeError:
        typer.echo(f"{path} is not an ONNX file", err=True)
        raise typer.Exit(2) from None
    if graph:
        typer.echo(printed(model))
        typer.echo("")
    for line in _summary(model, path):
        typer.echo(line)


def _summary(model: ir.Model, path: Path) -> Iterator[str]:
    import onnx_ir as ir

    from exporter.show import typed

    producer = " ".join(part for part in (model.producer_name, model.producer_version) if part)
    opsets = ", ".join(f"{domain or 'onnx'} {version}" for domain, version in model.opset_imports.items())
    yield f"{path}: opset {opsets}, IR version {model.ir_version}" + (f", made by {producer}" if producer else "")
    weights = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
    listed = model.graph.initializers
    yield "inputs     " + ", ".join(typed(value) for value in model.graph.inputs if value.name not in listed)
    yield "outputs    " + ", ".join(typed(value) for value in model.graph.outputs)
    files = sorted({str(each.location) for each in weights if isinstance(each, ir.ExternalTensor)})
    numbers = sum(each.size for each in weights)
    beside = f", in {', '.join(files)}" if files else ""
    yield f"weights    {numbers:,} numbers, {_megabytes(sum(each.nbytes for each in weights))}{beside}"
    yield f"file       {_megabytes(path.stat().st_size)}"
    nodes = [*model.graph.all_nodes(), *(node for each in model.functions.values() for node in each.all_nodes())]
    yield f"operators  {len(nodes)}"
    counts = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
    yield from (f"  {count:5}  {name}" for name, count in sorted(counts.items(), key=lambda each: (-each[1], each[0])))


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

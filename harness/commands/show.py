"""`parity show`: what is in an ONNX file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["show"]


def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file.")],
    graph: Annotated[bool, typer.Option(help="Print the graph, not only sizes and counts.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Sizes and counts, as JSON.")] = False,
) -> None:
    """Print an ONNX file: its graph with types and shapes, how large it is, which operators it is made of.

    A file exported with `strip_doc_string=False` shows each node's source line too. Weights are not read.

    Examples:

        parity show model.onnx

        parity show model.onnx --no-graph
    """
    import onnx_ir as ir
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    from onnx_parity.exporter.print_graph import printed

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
    summary = _Summary.of(model, path)
    if as_json:
        typer.echo(msgspec.json.encode(summary))
        return
    if graph:
        typer.echo(printed(model))
        typer.echo("")
    for line in summary.lines():
        typer.echo(line)


class _Summary(msgspec.Struct, frozen=True):
    """What `--json` prints, and `lines` says."""

    path: str
    opsets: dict[str, int]
    ir_version: int
    producer: str
    inputs: list[str]
    outputs: list[str]
    #: How many numbers the weights have, their bytes, and the files beside the model that they lie in.
    weights: int
    weight_bytes: int
    weight_files: list[str]
    bytes: int
    #: How many nodes of each operator there are, the most frequent first.
    operators: dict[str, int]

    @classmethod
    def of(cls, model: ir.Model, path: Path) -> _Summary:
        import onnx_ir as ir

        from onnx_parity.exporter.print_graph import typed

        weights = [value.const_value for value in model.graph.initializers.values() if value.const_value is not None]
        listed = model.graph.initializers
        nodes = [*model.graph.all_nodes(), *(node for each in model.functions.values() for node in each.all_nodes())]
        counts = Counter(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in nodes)
        return cls(
            path=str(path),
            opsets={domain or "onnx": version for domain, version in model.opset_imports.items()},
            ir_version=model.ir_version,
            producer=" ".join(part for part in (model.producer_name, model.producer_version) if part),
            inputs=[typed(value) for value in model.graph.inputs if value.name not in listed],
            outputs=[typed(value) for value in model.graph.outputs],
            weights=sum(each.size for each in weights),
            weight_bytes=sum(each.nbytes for each in weights),
            weight_files=sorted({str(each.location) for each in weights if isinstance(each, ir.ExternalTensor)}),
            bytes=path.stat().st_size,
            operators=dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))),
        )

    def lines(self) -> Iterator[str]:
        opsets = ", ".join(f"{domain} {version}" for domain, version in self.opsets.items())
        made = f", made by {self.producer}" if self.producer else ""
        yield f"{self.path}: opset {opsets}, IR version {self.ir_version}{made}"
        yield f"inputs     {', '.join(self.inputs)}"
        yield f"outputs    {', '.join(self.outputs)}"
        beside = f", in {', '.join(self.weight_files)}" if self.weight_files else ""
        yield f"weights    {self.weights:,} numbers, {_megabytes(self.weight_bytes)}{beside}"
        yield f"file       {_megabytes(self.bytes)}"
        yield f"operators  {sum(self.operators.values())}"
        yield from (f"  {count:5}  {name}" for name, count in self.operators.items())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

"""`parity show`: prints the content of an ONNX file as text."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from onnx_parity.harness.commands.terminal import print_json, print_text, refuse
from onnx_parity.harness.one_line import one_line

if TYPE_CHECKING:
    import onnx_ir as ir

__all__ = ["NotAModelError", "Summary", "load_model", "read_model", "show"]


def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="The ONNX file to print.")],
    graph: Annotated[bool, typer.Option(help="Print the graph. Without it, only sizes and counts are printed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print sizes and counts as JSON.")] = False,
) -> None:
    """Print an ONNX file: its graph with types and shapes, its size, the conditions under which it is right, and how
    often it uses each operator.

    The source line of each node is printed too if the file was exported with `strip_doc_string=False`. The weights are
    not read, so that large files are printed quickly.

    Examples:

        parity show model.onnx

        parity show model.onnx --no-graph
    """
    if not path.is_file():
        what = "it is a folder" if path.is_dir() else "it is not a file" if path.exists() else "there is no such file"
        refuse(f"{path} cannot be shown: {what}.")
    try:
        summary, text = read_model(path, with_graph=graph and not as_json)
    except NotAModelError as error:
        refuse(f"{path} cannot be shown: {error}.")
    if as_json:
        print_json(summary)
        return
    if graph:
        print_text(text)
        print_text("")
    for line in summary.lines():
        print_text(line)


class NotAModelError(Exception):
    """A file that is not an ONNX model. The message has the reason."""


def read_model(path: Path, *, with_graph: bool) -> tuple[Summary, str]:
    """The figures of a file and its printed graph. Raises NotAModelError for any invalid content."""
    from onnx_parity.exporter.print_graph import printed

    with _refusing_malformed():
        model = _load(path)
        return Summary.of(model, path), printed(model) if with_graph else ""


def load_model(path: Path) -> ir.Model:
    """The model of a file. Raises NotAModelError for any invalid content."""
    with _refusing_malformed():
        return _load(path)


def _load(path: Path) -> ir.Model:
    import onnx_ir as ir

    model = ir.load(path, format="protobuf")
    if not model.ir_version:  # Protobuf reads an empty file as an empty message.
        raise NotAModelError("it is not an ONNX file")
    _refuse_files_elsewhere(model)
    return model


@contextmanager
def _refusing_malformed() -> Iterator[None]:
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        with _without_messages():
            yield
    except DecodeError:
        raise NotAModelError("it is not an ONNX file") from None
    except _MALFORMED as error:
        raise NotAModelError(f"it is not a valid ONNX model ({_innermost(error)})") from error


@contextmanager
def _without_messages() -> Iterator[None]:
    """A context without onnx_ir's logs of repairs and onnx's warnings of unknown keys. Other messages are shown."""
    logger = logging.getLogger("onnx_ir")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


#: The exceptions of onnx_ir and numpy for protobuf messages with invalid numbers, names or sizes.
_MALFORMED = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, NotImplementedError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip


def _refuse_files_elsewhere(model: ir.Model) -> None:
    """Refuse external data outside of the folder of the model, as ONNX requires."""
    import onnx_ir as ir

    for name, value in model.graph.initializers.items():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):
            location = PurePath(tensor.location)
            if location.is_absolute() or ".." in location.parts:
                raise NotAModelError(
                    f"the data of {name!r} is in {str(tensor.location)!r}, but ONNX allows files only in the folder "
                    "of the model and below"
                )


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    text = one_line(str(error))
    return f"{type(error).__name__}: {text[:200]}" if text else type(error).__name__


class Summary(msgspec.Struct, frozen=True):
    """The figures of a file, as `--json` prints them."""

    path: str
    opsets: dict[str, int]
    ir_version: int
    producer: str
    inputs: list[str]
    outputs: list[str]
    #: The number of elements of all weights, their bytes, and the external files that hold them.
    weights: int
    weight_bytes: int
    weight_files: list[str]
    bytes: int
    #: The number of nodes of each operator, the most frequent first.
    operators: dict[str, int]
    #: The conditions under which the model is right, as in its metadata: see docs/assumptions.md.
    assumptions: list[dict[str, Any]]

    @classmethod
    def of(cls, model: ir.Model, path: Path) -> Summary:
        import onnx_ir as ir

        from onnx_parity.exporter.graph.assumptions import assumptions_in
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
            assumptions=assumptions_in(model.metadata_props),
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
        for each in self.assumptions:
            place = f" ({each['file']}:{each['line']})" if each.get("file") else ""
            yield f"assumes    {each.get('condition', '')}{place}; otherwise {each.get('otherwise', '')}"
        yield f"operators  {sum(self.operators.values())}"
        yield from (f"  {count:5}  {name}" for name, count in self.operators.items())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"

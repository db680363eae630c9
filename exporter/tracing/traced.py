"""What one recording of a program has found: the graph, what its outputs are, and what was decided on the way."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from onnx_parity.exporter.graph.assumptions import Assumption
from onnx_parity.exporter.graph.graph import Graph, Origin, Value
from onnx_parity.exporter.program_state.saved_objects import Kept
from onnx_parity.exporter.recording.reads import Read, looked_at
from onnx_parity.exporter.recording.results import Returned
from onnx_parity.exporter.request.dynamic_axes import Axes

if TYPE_CHECKING:
    from onnx_parity.exporter.expressions.expression import Expression, Symbol
    from onnx_parity.exporter.sizes.answers import Answer

__all__ = ["ByLayout", "Traced"]


class ByLayout(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided by how a tensor lies in memory."""

    #: The place among all that were.
    number: int
    origin: Origin
    #: The answer to a question, strides, or whether what was made of the tensor has its memory.
    outcome: Any
    #: Whether the tensor has no elements, and whether another one was made of it.
    is_empty: bool
    is_made: bool
    #: Whether it may make a difference to what the program computes: by a write, for example.
    may_matter: bool
    #: Whether torch's kernels decided how the tensor lies, by more than that what they were given is contiguous.
    is_open: bool
    #: The sizes of the tensors from which this one was computed.
    sizes: Sequence[Expression]
    #: The condition on sizes with which a copy is none, as far as its strides here tell.
    condition: Expression | None


class Traced(msgspec.Struct):
    """A recorded program and how its outputs were structured."""

    graph: Graph
    returned: Returned
    #: Names of buffers, inputs and attributes that the program wrote to, and whose new values are not outputs.
    written: list[str] = []
    #: What the program read from tensors, and the model has as constants.
    reads: list[Read] = []
    #: The questions about sizes that the program, or torch, branched on.
    branches: list[Answer] = []
    #: The sizes with which it was recorded.
    sizes: Mapping[Symbol, int] = {}
    #: Whether the program asked the questions that were denied.
    has_denied: bool = False
    #: Those questions.
    denied: frozenset[Expression] = frozenset()
    #: The dynamic axes that were asked for, without those that are static because the program runs with no other size.
    axes: Axes = msgspec.field(default_factory=Axes)
    #: Where the program made a text of a tensor or of a size, and the names of the symbols of such sizes.
    text: Origin | None = None
    sizes_in_texts: Collection[str] = ()
    #: Where what it does may depend on how its inputs lie in memory.
    asks_layouts: Origin | None = None
    #: The numbers of what is no copy and was written to, if it depends on nothing else how they lie.
    written_views: frozenset[int] = frozenset()
    #: Whether the strides of axes of one element matter too.
    asks_exactly: bool = False
    #: What was decided by how tensors lie in memory.
    layouts: Sequence[ByLayout] = ()
    #: The answers that two dynamic sizes are equal, by which torch broadcast them together.
    equalities: list[Answer] = []
    #: The conditions of PyTorch's kernels.
    kernels: list[Answer] = []
    #: The truth values of branches on values of which the model has both sides.
    conditions: Sequence[Value] = ()
    #: The inputs that are numbers of Python.
    numbers: Sequence[Value] = ()
    #: What it changed in its Python objects.
    kept: list[Kept] = []
    #: The conditions under which the graph computes what the program does.
    assumptions: Sequence[Assumption] = ()

    @property
    def looked_at(self) -> list[int]:
        """The positions of the inputs whose values decided what was recorded."""
        sources = looked_at(self.reads)
        return [number for number, each in enumerate(self.graph.inputs) if each.value in sources]

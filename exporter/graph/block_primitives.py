"""The primitives whose nodes have blocks: branches, loops and scans."""

from __future__ import annotations

from onnx_parity.exporter.graph.graph import Primitive

__all__ = ["IF", "LOOP", "SCAN"]

#: Arguments: `condition`; the blocks `then` and `orelse`, which have no inputs.
IF = Primitive("prim::If")
#: Arguments: `trips` and `condition`, of which either may be None; `initial`; `block`. The inputs of the block are the
#: number of the iteration, the condition, and the carried values. Its outputs are the next condition, the carried
#: values, and the collected values.
LOOP = Primitive("prim::Loop")
#: Arguments: `initial`; `over`; `block`. The inputs of the block are the carried values, and a slice along the first
#: axis of each tensor in `over`. Its outputs are the carried values and the collected values.
SCAN = Primitive("higher_order::scan")

"""The primitives whose nodes have blocks: branches, loops and scans."""

from __future__ import annotations

from onnx_parity.exporter.capture.graph.graph import Primitive

__all__ = ["IF", "LOOP", "SCAN"]

#: Arguments: `condition`; the blocks `then` and `orelse`, which take no inputs.
IF = Primitive("prim::If")
#: Arguments: `trips` and `condition`, of which either may be None; `initial`; `block`. The block takes the number of
#: the iteration, whether it goes on, and what is carried; it gives whether it goes on, what is carried, and what is
#: collected.
LOOP = Primitive("prim::Loop")
#: Arguments: `initial`; `over`; `block`. The block takes what is carried, and of each tensor in `over` a slice along
#: the first axis; it gives what is carried and what is collected.
SCAN = Primitive("higher_order::scan")

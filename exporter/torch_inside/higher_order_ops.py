"""torch's higher-order operators: the functions that programs call, and the operators that graphs call."""

from __future__ import annotations

from torch._functorch.vmap import _flat_vmap as vmap_of_leaves
from torch._functorch.vmap import vmap_impl
from torch._higher_order_ops.associative_scan import associative_scan, associative_scan_op
from torch._higher_order_ops.cond import cond, cond_op
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._higher_order_ops.map import map, map_impl
from torch._higher_order_ops.scan import scan, scan_op
from torch._higher_order_ops.while_loop import while_loop, while_loop_op

__all__ = [
    "associative_scan", "associative_scan_op", "cond", "cond_op", "flex_attention", "map", "map_impl", "math_attention",
    "scan", "scan_op", "vmap_impl", "vmap_of_leaves", "while_loop", "while_loop_op",
]  # fmt: skip

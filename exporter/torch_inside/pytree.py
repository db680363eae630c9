"""torch's trees of containers, which have no public name: taking structures apart and putting them together again."""

from __future__ import annotations

from torch.utils._pytree import (
    BUILTIN_TYPES,
    SUPPORTED_NODES,
    GetAttrKey,
    MappingKey,
    SequenceKey,
    TreeSpec,
    is_namedtuple_instance,
    register_pytree_node,
    tree_any,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_map_only,
    tree_unflatten,
)  # fmt: skip
from torch.utils._pytree import _broadcast_to_and_flatten as leaves_for_structure

__all__ = [
    "BUILTIN_TYPES", "SUPPORTED_NODES", "GetAttrKey", "MappingKey", "SequenceKey", "TreeSpec", "is_namedtuple_instance",
    "leaves_for_structure", "register_pytree_node",
    "tree_any", "tree_flatten", "tree_leaves", "tree_map", "tree_map_only", "tree_unflatten",
]  # fmt: skip

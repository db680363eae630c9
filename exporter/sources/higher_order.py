"""torch's higher-order operators, recorded: cond, while_loop, scan, associative_scan, map, vmap, flex_attention.

Each has two forms: the function that programs call, with structures of tensors, and the operator that graphs of
`torch.export` call, with flat lists.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.recording.blocks import Blocks, Iteration
from onnx_parity.exporter.recording.leaves import Leaf, is_number, spelled
from onnx_parity.exporter.recording.results import spelled_structure
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.higher_order_ops import math_attention

__all__ = [
    "associative_scan",
    "associative_scan_flat",
    "cond",
    "flex_attention",
    "map_",
    "map_flat",
    "scan",
    "scan_flat",
    "vmap",
    "while_loop",
]


def cond(
    blocks: Blocks, pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()
) -> Any:
    condition = blocks.truth(pred)
    if isinstance(condition, bool):
        return (true_fn if condition else false_fn)(*operands)
    leaves, spec = pytree.tree_flatten(tuple(operands))
    places = [number for number, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    specs: list[pytree.TreeSpec] = []

    def flat(function: Callable[..., Any]) -> Callable[[Sequence[torch.Tensor]], Sequence[Leaf]]:
        def run(tensors: Sequence[torch.Tensor]) -> Sequence[Leaf]:
            filled = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                filled[place] = tensor
            returned, returned_spec = pytree.tree_flatten(function(*pytree.tree_unflatten(filled, spec)))
            specs.append(returned_spec)
            return returned

        return run

    results = blocks.branch(condition, flat(true_fn), flat(false_fn), [leaves[place] for place in places])
    if specs[0] != specs[1]:
        raise blocks.error(
            f"the branches of torch.cond return different structures, {spelled_structure(specs[0])} and "
            f"{spelled_structure(specs[1])}: return the same structure from both"
        )
    return pytree.tree_unflatten(results, specs[0])


def while_loop(
    blocks: Blocks,
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    carried_inputs: Any,
    additional_inputs: Sequence[Any] = (),
    **options: Any,
) -> Any:
    initial, spec = pytree.tree_flatten(tuple(carried_inputs))
    as_number = [is_number(leaf) for leaf in initial]

    def arguments(leaves: Sequence[Leaf], shared: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        numbered = [
            blocks.number(leaf) if wanted and isinstance(leaf, torch.Tensor) else leaf
            for leaf, wanted in zip(leaves, as_number, strict=True)
        ]
        return (*pytree.tree_unflatten(numbered, spec), *shared)

    def body(_: torch.Tensor, leaves: Sequence[Leaf], shared: Sequence[torch.Tensor]) -> Iteration:
        given = arguments(leaves, shared)
        carried, carried_spec = pytree.tree_flatten(tuple(body_fn(*given)))
        if carried_spec != spec:
            raise blocks.error(
                f"the body of while_loop takes {spelled_structure(spec)} but returns "
                f"{spelled_structure(carried_spec)}: return the structure that it takes"
            )
        return Iteration(blocks.truth(cond_fn(*arguments(carried, shared))), carried)

    going = blocks.truth(cond_fn(*arguments(initial, additional_inputs)))
    if going is False:
        return tuple(carried_inputs)
    results, _ = blocks.loop(None, going, initial, body, additional_inputs, [True] * len(initial))
    return arguments(results, ())


def scan(
    blocks: Blocks, combine_fn: Callable[..., Any], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    start, start_spec = pytree.tree_flatten(init)
    over, over_spec = pytree.tree_flatten(xs)
    if not over:
        return init, []
    specs: list[pytree.TreeSpec] = []

    def flat(*leaves: Leaf) -> list[Leaf]:
        carried, collected = combine_fn(
            pytree.tree_unflatten(leaves[: len(start)], start_spec),
            pytree.tree_unflatten(leaves[len(start) :], over_spec),
        )
        collected, collected_spec = pytree.tree_flatten(collected)
        specs.append(collected_spec)
        return [*pytree.tree_leaves(carried), *collected]

    axis = dim % over[0].ndim
    results = scan_flat(blocks, flat, start, [_arranged(x, axis, reverse) for x in over])
    collected = [_arranged_back(y, axis, reverse) for y in results[len(start) :]]
    return pytree.tree_unflatten(results[: len(start)], start_spec), pytree.tree_unflatten(collected, specs[-1])


def associative_scan(
    blocks: Blocks,
    combine_fn: Callable[..., Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    over, spec = pytree.tree_flatten(xs)

    def flat(*leaves: Leaf) -> list[Leaf]:
        one, other = leaves[: len(over)], leaves[len(over) :]
        return pytree.tree_leaves(combine_fn(pytree.tree_unflatten(one, spec), pytree.tree_unflatten(other, spec)))

    axis = dim % over[0].ndim
    results = associative_scan_flat(blocks, flat, [_arranged(x, axis, reverse) for x in over])
    return pytree.tree_unflatten([_arranged_back(y, axis, reverse) for y in results], spec)


def map_(blocks: Blocks, f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    over, spec = pytree.tree_flatten(xs)
    specs: list[pytree.TreeSpec] = []

    def flat(*leaves: Leaf) -> list[Leaf]:
        returned, returned_spec = pytree.tree_flatten(f(pytree.tree_unflatten(leaves, spec), *args))
        specs.append(returned_spec)
        return returned

    results = map_flat(blocks, flat, over, ())
    return pytree.tree_unflatten(results, specs[-1])


def vmap(
    blocks: Blocks,
    func: Callable[..., Any],
    batch_size: Size,
    in_dims: Sequence[int | None],
    leaves: Sequence[Any],
    spec: pytree.TreeSpec,
    out_dims: Any,
    randomness: str,
    **kwargs: Any,
) -> Any:
    """Record `torch.vmap` as a loop over the axis. Each iteration writes to slices of its own, which are copied back
    to the tensors of which they are slices."""
    places = [place for place, axis in enumerate(in_dims) if axis is not None]
    wholes = [leaves[place].movedim(in_dims[place], 0) for place in places]
    specs: list[pytree.TreeSpec] = []
    written: list[int] = []

    def body(number: torch.Tensor, _: Sequence[Leaf], __: Sequence[torch.Tensor]) -> Iteration:
        slices = [whole.index_select(0, number.reshape(1)).squeeze(0) for whole in wholes]
        before = blocks.settled(slices)
        given = [*leaves]
        for place, each in zip(places, slices, strict=True):
            given[place] = each
        returned, returned_spec = pytree.tree_flatten(func(*pytree.tree_unflatten(given, spec), **kwargs))
        specs.append(returned_spec)
        for each in returned:
            if not isinstance(each, torch.Tensor):
                raise blocks.error(f"a function given to torch.vmap returns {spelled(each)}: return tensors only")
        written[:] = [n for n, each in enumerate(slices) if blocks.take(each) is not before[n]]
        return Iteration(True, [], [*returned, *(slices[n] for n in written)])

    _, results = blocks.loop(batch_size, True, [], body)
    axes = pytree.leaves_for_structure(out_dims, specs[-1])
    if axes is None or None in axes or randomness == "same":
        raise blocks.error(
            "torch.vmap over a dynamic axis is recorded as a loop over it, which has no `out_dims` of None, nor the "
            '`randomness` "same": give other ones, or remove that axis from dynamic_axes'
        )
    for number, new in zip(written, results[len(axes) :], strict=True):
        wholes[number].copy_(new)
    moved = [each.movedim(0, axis) for each, axis in zip(results, axes, strict=False)]
    return pytree.tree_unflatten(moved, specs[-1])


def flex_attention(blocks: Blocks, *args: Any, **kwargs: Any) -> Any:
    """Record the definition, which applies the functions of scores and masks to each element by `torch.vmap`."""
    return math_attention(*args, **kwargs)


# --- over flat lists --------------------------------------------------------------------------------------------------


def scan_flat(
    blocks: Blocks,
    combine_fn: Callable[..., Any],
    init: Sequence[torch.Tensor],
    xs: Sequence[torch.Tensor],
    additional_inputs: Sequence[Any] = (),
) -> list[torch.Tensor]:
    """Record a scan. Returns the carried values after the last iteration, and the collected values, stacked."""

    def body(carried: Sequence[torch.Tensor], slices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        returned: Sequence[torch.Tensor] = combine_fn(*carried, *slices, *additional_inputs)
        return returned

    return blocks.scan(init, xs, body)


def associative_scan_flat(
    blocks: Blocks, combine_fn: Callable[..., Any], xs: Sequence[torch.Tensor], additional_inputs: Sequence[Any] = ()
) -> list[torch.Tensor]:
    """Record an associative scan as a sequential one, because ONNX cannot make use of the associativity."""

    def body(carried: Sequence[torch.Tensor], slices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        combined = list(combine_fn(*carried, *slices, *additional_inputs))
        return [*combined, *combined]

    results = blocks.scan([x[0] for x in xs], [x[1:] for x in xs], body)
    return [torch.cat([x[:1], rest]) for x, rest in zip(xs, results[len(xs) :], strict=True)]


def map_flat(
    blocks: Blocks, f: Callable[..., Any], xs: Sequence[torch.Tensor], pos_args: Sequence[Any]
) -> list[torch.Tensor]:
    def body(_: Sequence[torch.Tensor], slices: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        return list(f(*slices, *pos_args))

    return blocks.scan([], xs, body)


def _arranged(x: torch.Tensor, axis: int, reverse: bool) -> torch.Tensor:
    """The tensor with the scanned axis first, and reversed if the scan runs in reverse."""
    x = x.movedim(axis, 0) if axis else x
    return x.flip([0]) if reverse else x


def _arranged_back(y: torch.Tensor, axis: int, reverse: bool) -> torch.Tensor:
    y = y.flip([0]) if reverse else y
    return y.movedim(0, axis) if 0 < axis < y.ndim else y

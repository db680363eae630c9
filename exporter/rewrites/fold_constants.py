"""Constant folding: nodes whose inputs are all initializers become initializers, which are computed when written.

An example is the reordering of an LSTM's gates to ONNX's order. Only operators that rearrange weights or compute
elementwise are folded, unless the result is much larger than the inputs. If the result is a concatenation of other
tensors, their bytes are written one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx_ir.tensor_adapters import TorchTensor

from onnx_parity.exporter.dtypes import TO_TORCH
from onnx_parity.exporter.files.lazy_tensors import LazyTorchTensor, WeightTensor, torch_of
from onnx_parity.exporter.rewrites.engine.all_nodes import all_nodes, onnx_operator
from onnx_parity.exporter.rewrites.engine.matching import is_learned, known_tensor
from onnx_parity.exporter.rewrites.engine.new_constants import free_name

__all__ = ["fold_constants"]

#: Tensors of at most this many bytes are small.
_SMALL = 1024
#: By how many bytes each result may be larger than the inputs.
_GROWTH = 2**18
#: All results together may be larger than that by the weights' bytes divided by this number.
_WEIGHTS_PER_GROWTH = 64
#: Of how many bytes a result may be that is the same as a weight, or a part of one, which other nodes need too: the
#: model then has them twice.
_MOST_TWICE = {"Reshape": _SMALL, "Slice": 2**16, "GatherElements": 2**16}

#: Products of matrices.
_PRODUCTS = frozenset({"Gemm", "MatMul"})
#: Operators that are not folded for integers, of which torch's results differ from ONNX's.
_OF_FLOATS = frozenset({"Div", "ReduceMean", "Pow"}) | _PRODUCTS

_Evaluate = Callable[[ir.Node, Sequence[torch.Tensor]], torch.Tensor | Sequence[torch.Tensor]]


def _attribute(node: ir.Node, name: str, default: Any) -> Any:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.value


def _axes(node: ir.Node, inputs: Sequence[torch.Tensor]) -> list[int]:
    """The axes, which are an attribute in early opsets and an input later."""
    return list(inputs[1].tolist() if len(inputs) > 1 else _attribute(node, "axes", ()))


def _unsqueeze(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    x = inputs[0]
    axes = _axes(node, inputs)
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _split(node: ir.Node, inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    sizes = inputs[1].tolist() if len(inputs) > 1 else list(_attribute(node, "split", ()))
    return torch.split(inputs[0], sizes, _attribute(node, "axis", 0))


def _joined(inputs: list[torch.Tensor], axis: int) -> torch.Tensor:
    if not inputs[0].is_meta:
        return torch.cat(inputs, dim=axis)
    # torch's kernel of cat for meta tensors imports dynamo, which takes 0.4 s of a process's first export.
    shape = list(inputs[0].shape)
    shape[axis] = sum(each.shape[axis] for each in inputs)
    return torch.empty(shape, dtype=inputs[0].dtype, device="meta")


def _reshape(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    x, sizes = inputs[0], inputs[1].tolist()
    if not _attribute(node, "allowzero", 0):
        sizes = [x.shape[axis] if not size and axis < x.ndim else size for axis, size in enumerate(sizes)]
    return x.reshape(sizes)


def _gather(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """Rows of a weight, as in a table of biases for relative positions."""
    x, rows = inputs
    axis = _attribute(node, "axis", 0) % x.ndim
    shape = (*x.shape[:axis], *rows.shape, *x.shape[axis + 1 :])
    if x.is_meta or rows.is_meta:
        return torch.empty(shape, dtype=x.dtype, device="meta")
    rows = rows.flatten().long()
    return x.index_select(axis, torch.where(rows < 0, rows + x.shape[axis], rows)).reshape(shape)


def _slice(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A part of a buffer, as of the numbers of all positions that a model may have."""
    x = inputs[0]
    if len(inputs) > 1:
        starts, ends, *others = (each.tolist() for each in inputs[1:])
    else:
        starts, ends = (list(_attribute(node, name, ())) for name in ("starts", "ends"))
        others = [list(_attribute(node, "axes", range(len(starts))))]
    axes = others[0] if others else range(len(starts))
    steps = others[1] if len(others) > 1 else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(x.shape[axis])[start:end:step]
        if step == 1:
            x = x.narrow(axis, chosen.start, len(chosen))
        elif x.is_meta:
            x = x.narrow(axis, 0, len(chosen))
        else:
            x = x.index_select(axis, torch.tensor(chosen, dtype=torch.long))
    return x


def _expand(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A weight that is repeated for a fixed batch, as the class token of a vision transformer."""
    return inputs[0].expand(np.broadcast_shapes(tuple(inputs[0].shape), tuple(inputs[1].tolist())))


def _gather_elements(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    x, places = inputs
    axis = _attribute(node, "axis", 0) % x.ndim
    if x.is_meta or places.is_meta:
        return torch.empty(places.shape, dtype=x.dtype, device="meta")
    places = places.long()
    return x.gather(axis, torch.where(places < 0, places + x.shape[axis], places))


def _scatter_nd(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    """A buffer of which a part is replaced, as the rotations that vision-language models interleave."""
    x, places, updates = inputs
    if x.is_meta or updates.is_meta:
        return torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x.index_put(places.unbind(-1), updates)


def _gemm(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    a, b, *sums = inputs
    product = (a.t() if _attribute(node, "transA", 0) else a) @ (b.t() if _attribute(node, "transB", 0) else b)
    scaled: torch.Tensor = product * _attribute(node, "alpha", 1.0)
    return scaled + _attribute(node, "beta", 1.0) * sums[0] if sums else scaled


def _mean(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return _reduced(node, inputs, lambda x, axes, keeps: x.mean(axes, keeps))


def _sum(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return _reduced(node, inputs, lambda x, axes, keeps: x.sum(axes, keeps, dtype=x.dtype))


def _reduced(
    node: ir.Node,
    inputs: Sequence[torch.Tensor],
    reduce_axes: Callable[[torch.Tensor, list[int], bool], torch.Tensor],
) -> torch.Tensor:
    axes = _axes(node, inputs)
    if not axes and _attribute(node, "noop_with_empty_axes", 0):
        return inputs[0]
    return reduce_axes(inputs[0], axes, bool(_attribute(node, "keepdims", 1)))


#: Elementwise operators. Integer division is not folded, because torch raises an error for a division by zero.
_ELEMENTWISE: dict[str, _Evaluate] = {
    "Add": lambda node, inputs: inputs[0] + inputs[1],
    "Sub": lambda node, inputs: inputs[0] - inputs[1],
    "Mul": lambda node, inputs: inputs[0] * inputs[1],
    "Div": lambda node, inputs: inputs[0] / inputs[1],
    "Max": lambda node, inputs: reduce(torch.maximum, inputs),
    "Min": lambda node, inputs: reduce(torch.minimum, inputs),
    "Floor": lambda node, inputs: inputs[0].floor(),
    "Round": lambda node, inputs: inputs[0].round(),
    "Relu": lambda node, inputs: inputs[0].relu(),
    "Sqrt": lambda node, inputs: inputs[0].sqrt(),
    "Neg": lambda node, inputs: -inputs[0],
    "Reciprocal": lambda node, inputs: inputs[0].reciprocal(),
    # Rotations by the numbers of positions that do not vary, logarithms that Mamba keeps of its weights, and gates
    # between two kinds of attention.
    "Cos": lambda node, inputs: inputs[0].cos(),
    "Sin": lambda node, inputs: inputs[0].sin(),
    "Exp": lambda node, inputs: inputs[0].exp(),
    "Sigmoid": lambda node, inputs: inputs[0].sigmoid(),
    "Softplus": lambda node, inputs: torch.logaddexp(inputs[0], inputs[0].new_zeros(())),
    "Tanh": lambda node, inputs: inputs[0].tanh(),
    "Log": lambda node, inputs: inputs[0].log(),
    "Abs": lambda node, inputs: inputs[0].abs(),
    "Pow": lambda node, inputs: inputs[0].pow(inputs[1]).to(inputs[0].dtype),
    # Masks that depend on numbers of positions in a buffer.
    "Equal": lambda node, inputs: inputs[0] == inputs[1],
    "Less": lambda node, inputs: inputs[0] < inputs[1],
    "LessOrEqual": lambda node, inputs: inputs[0] <= inputs[1],
    "Greater": lambda node, inputs: inputs[0] > inputs[1],
    "GreaterOrEqual": lambda node, inputs: inputs[0] >= inputs[1],
    "And": lambda node, inputs: inputs[0] & inputs[1],
    "Or": lambda node, inputs: inputs[0] | inputs[1],
    "Not": lambda node, inputs: ~inputs[0],
    "Where": lambda node, inputs: torch.where(inputs[0], inputs[1], inputs[2]),
}
#: How each operator that is folded is computed in torch.
_EVALUATE: dict[str, _Evaluate] = {
    "Transpose": lambda node, inputs: inputs[0].permute(*_attribute(node, "perm", range(inputs[0].ndim)[::-1])),
    "Unsqueeze": _unsqueeze,
    "Squeeze": lambda node, inputs: inputs[0].squeeze(_axes(node, inputs)),
    "Split": _split,
    # Those of weights that are standardized each time, as in NFNets.
    "Reshape": _reshape,
    "Gather": _gather,
    # Those of the numbers of positions and of token types, which are buffers.
    "Slice": _slice,
    "GatherElements": _gather_elements,
    "Expand": _expand,
    "Tile": lambda node, inputs: inputs[0].repeat(inputs[1].tolist()),
    "ReduceMean": _mean,
    "ReduceSum": _sum,
    "ScatterND": _scatter_nd,
    # Those of a table that the program makes and a weight, as of positions.
    "MatMul": lambda node, inputs: inputs[0] @ inputs[1],
    "Gemm": _gemm,
    "Softmax": lambda node, inputs: inputs[0].softmax(-1),
    "Concat": lambda node, inputs: _joined(list(inputs), _attribute(node, "axis", 0)),
    "Cast": lambda node, inputs: inputs[0].to(TO_TORCH[ir.DataType(_attribute(node, "to", 1))]),
    **_ELEMENTWISE,
}


def fold_constants(model: ir.Model, *, keeps_weights: bool = False) -> None:
    """Fold the nodes of the graph and of its subgraphs, in one pass over them.

    With `keeps_weights`, only what does not depend on a large weight: the result would have to be stored anew.
    """
    graph = model.graph
    weights = [value.const_value for value in graph.initializers.values()]
    spare = sum(tensor.nbytes for tensor in weights if tensor is not None) // _WEIGHTS_PER_GROWTH
    previews = _Previews()
    for node in all_nodes(graph):
        evaluate = _EVALUATE.get(onnx_operator(node))
        if evaluate is not None:
            spare -= _fold_node(graph, node, evaluate, spare, keeps_weights, previews)


class _Previews:
    """What is known of tensors during one pass: the values of small ones, such as axes and sizes, and of large ones
    only the dtype and shape, as meta tensors.

    What is folded is kept. Otherwise each node of a chain would compute the nodes before it again.
    """

    def __init__(self) -> None:
        # The tensors are kept too, so that none that is created later has the same identity.
        self._folded: dict[int, tuple[ir.TensorProtocol, torch.Tensor]] = {}

    def of(self, tensor: ir.TensorProtocol) -> torch.Tensor:
        if id(tensor) in self._folded:
            return self._folded[id(tensor)][1]
        if tensor.nbytes <= _SMALL:
            return torch_of(tensor)
        return torch.empty(tensor.shape.numpy(), dtype=TO_TORCH[tensor.dtype], device="meta")

    def keep(self, tensor: ir.TensorProtocol, preview: torch.Tensor) -> None:
        if preview.is_meta or _nbytes(preview) <= _SMALL:
            self._folded[id(tensor)] = tensor, preview


def _fold_node(
    graph: ir.Graph, node: ir.Node, evaluate: _Evaluate, spare: int, keeps_weights: bool, previews: _Previews
) -> int:
    """Fold one node, if all its inputs are known and the result is not too large. It may take a part of the spare
    bytes. Returns how many it took.
    """
    tensors = [known_tensor(value) for value in node.inputs]
    known = [tensor for tensor in tensors if tensor is not None]
    if len(known) < len(tensors) or any(tensor.dtype not in TO_TORCH for tensor in known):
        return 0
    if any(output.is_graph_output() for output in node.outputs):
        return 0
    if keeps_weights and any(
        type(each) is WeightTensor and (each.nbytes > _SMALL or each.raw.is_meta) for each in known
    ):
        return 0
    return _fold(graph, node, evaluate, known, spare, previews) if _is_computed_alike(node, known[0]) else 0


def _is_computed_alike(node: ir.Node, first: ir.TensorProtocol) -> bool:
    """Whether torch computes what ONNX specifies, for all attributes of the node, at every opset."""
    if node.op_type == "Softmax":
        # At early opsets, the axes from this one on are one.
        return _attribute(node, "axis", 0) in (-1, len(first.shape) - 1)
    if node.op_type in _OF_FLOATS and not first.dtype.is_floating_point():
        return False
    return bool(_attribute(node, "reduction", "none") == "none")  # Of a ScatterND.


def _on_one_device(node: ir.Node, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """The inputs as meta tensors if one of them is, because torch does not compute with both."""
    if not any(each.is_meta for each in inputs):
        return inputs
    # Integers may be axes or sizes, which have to be known, where they are not what the operator computes with.
    computes_with_all = node.op_type in _ELEMENTWISE or node.op_type == "Concat"
    return [each.to("meta") if each.is_floating_point() or computes_with_all else each for each in inputs]


def _fold(
    graph: ir.Graph,
    node: ir.Node,
    evaluate: _Evaluate,
    tensors: list[ir.TensorProtocol],
    spare: int,
    previews: _Previews,
) -> int:
    """Put initializers in place of a node, unless its result is too large."""
    shapes = [previews.of(tensor) for tensor in tensors]
    with torch.no_grad():
        computed = evaluate(node, _on_one_device(node, shapes))
    results = [computed] if isinstance(computed, torch.Tensor) else list(computed)
    nbytes = sum(_nbytes(result) for result in results)
    taken = max(nbytes - sum(tensor.nbytes for tensor in tensors) - _GROWTH, 0)
    if taken > spare:
        return 0
    if node.op_type in _PRODUCTS and not _is_worth_it(node, tensors, nbytes):
        return 0
    source = node.inputs[0]
    if nbytes > _MOST_TWICE.get(node.op_type, nbytes) and source is not None and len(source.uses()) > 1:
        return 0

    def compute(number: int) -> Callable[[], torch.Tensor]:
        def run(*inputs: torch.Tensor) -> torch.Tensor:
            # A weight that will be supplied later is a meta tensor, and so is what is computed from it.
            result = evaluate(node, _on_one_device(node, list(inputs)))
            return result if isinstance(result, torch.Tensor) else result[number]

        return run

    # A result that depends on no weight cannot change, so it is computed now.
    known = not any(shape.is_meta for shape in shapes) and not any(
        type(tensor) in (WeightTensor, LazyTorchTensor) for tensor in tensors
    )
    for number, (output, preview) in enumerate(zip(node.outputs, results, strict=True)):
        name = output.name if output.name not in graph.initializers else free_name(str(output.name), graph.initializers)
        folded = ir.Value(name=name, type=output.type, shape=ir.Shape(preview.shape))
        if known:
            folded.const_value = TorchTensor(preview)
        else:
            lazy = LazyTorchTensor(
                compute(number), preview.dtype, tuple(preview.shape), tuple(tensors), _same_bytes(node, tensors)
            )
            lazy.is_learned = any(is_learned(tensor) for tensor in tensors)
            folded.const_value = lazy
            previews.keep(lazy, preview)
        folded.const_value.name = name
        output.replace_all_uses_with(folded)
        output.name = None
        graph.initializers.add(folded)
    assert node.graph is not None
    node.graph.remove(node, safe=True)
    return taken


def _is_worth_it(product: ir.Node, tensors: list[ir.TensorProtocol], nbytes: int) -> bool:
    """Whether the product makes the model no larger, and one factor at least is given rather than computed: a chain of
    products would be computed anew for each of those that read it."""
    pairs = zip(product.inputs, tensors, strict=True)
    spared = sum(tensor.nbytes for value, tensor in pairs if value is not None and len(value.uses()) == 1)
    return nbytes <= spared and any(type(each) is not LazyTorchTensor for each in tensors[:2])


def _same_bytes(node: ir.Node, tensors: list[ir.TensorProtocol]) -> tuple[ir.TensorProtocol, ...]:
    """The tensors whose concatenated bytes are those of the result; none if it must be computed."""
    if node.op_type in ("Reshape", "Unsqueeze", "Squeeze"):
        return (tensors[0],)
    if node.op_type == "Concat" and _attribute(node, "axis", 0) == 0:
        return tuple(tensors)
    return ()


def _nbytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()

"""What sparse tensors are while a program is recorded: the places of their elements, and the values there.

ONNX has no operators for sparse tensors, and torch's own have constant sizes. While a program is recorded, a `Sparse`
stands for one in the format of coordinates, which is no tensor. Functions and methods of torch call its
`__torch_function__`, and this calls the rule for the name of the function, which computes with places and values. A
product with a dense matrix adds up rows of the matrix, so that its cost is that of the elements.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, cast

import torch

from onnx_parity.exporter.containers import Whole
from onnx_parity.exporter.graph.graph import Size
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.request.call_arguments import takes
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = ["Sparse", "from_dense", "stand_in_for"]

asks_for_its_caller(__file__)

_Rule = TypeVar("_Rule", bound=Callable[..., Any])
_rules: dict[str, Callable[..., Any]] = {}
#: Functions of each element that are 0 at 0, and those that may be computed of the parts of a sum.
_OF_ELEMENTS = frozenset({
    "abs", "sqrt", "sin", "tan", "tanh", "asin", "atan", "sinh", "asinh", "atanh", "erf", "expm1", "log1p", "relu",
    "sign", "sgn", "square", "ceil", "floor", "round", "trunc",
})  # fmt: skip
_LINEAR = frozenset(
    {"neg", "clone", "detach", "contiguous", "float", "double", "half", "bfloat16", "to", "cpu", "cuda"}
)
#: Operators of Python. What has no rule is refused, so that nothing of Python's own takes its place: `a += b` would not
#: write to the tensor, and `a == b` would ask whether both are the same object.
_OPERATORS = (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "floordiv", "mod", "pow", "rpow", "matmul",
    "rmatmul", "neg", "abs", "invert", "and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge", "iadd", "isub", "imul",
    "itruediv", "getitem", "setitem", "iter", "contains",
)  # fmt: skip


def _rule(*names: str) -> Callable[[_Rule], _Rule]:
    """Register the rule for the functions of these names. The sparse tensor is an argument that it takes."""

    def register(function: _Rule) -> _Rule:
        _rules.update(dict.fromkeys(names, function))
        return function

    return register


class Sparse(Whole):
    """A sparse tensor of the program, in the format of coordinates."""

    __slots__ = ("held", "is_ordered", "places", "shape")

    is_sparse = True
    is_sparse_csr = is_nested = is_quantized = is_mkldnn = False
    layout = torch.sparse_coo
    refusal_as_result = (
        "the program returns a sparse tensor, which ONNX has as constants alone: return its to_dense(), or its "
        "indices() and values()"
    )

    def __init__(
        self, places: torch.Tensor, values: torch.Tensor, shape: Sequence[Size], is_ordered: bool = False
    ) -> None:
        #: A row for each axis, and a column for each element.
        self.places = places
        self.held = values
        is_known = all(isinstance(size, int) for size in shape)
        self.shape: Sequence[Any] = torch.Size(cast("Sequence[int]", shape)) if is_known else tuple(shape)
        #: Whether no place is there twice, and all are in order.
        count: Size = places.shape[1]
        self.is_ordered = is_ordered or (isinstance(count, int) and count < 2)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name: str = func.__name__
        return _call(name.strip("_") if name.startswith("__") else name, args, kwargs or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"a sparse tensor has no attribute {name!r}")
        if not callable(getattr(torch.Tensor, name)):
            raise _refused(name)
        return lambda *args, **kwargs: _call(name, (self, *args), kwargs)

    dtype = property(lambda self: self.held.dtype)
    device = property(lambda self: self.held.device)
    requires_grad = property(lambda self: self.held.requires_grad)
    ndim = property(lambda self: len(self.shape))
    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise _refused("bool()")

    def __len__(self) -> Any:
        return self.shape[0]

    def with_values(self, values: torch.Tensor) -> Sparse:
        return Sparse(self.places, values, self.shape, self.is_ordered)


for _name in _OPERATORS:

    def _operator(*args: Any, called: str = _name) -> Any:
        return _call(called, args, {})

    setattr(Sparse, f"__{_name}__", _operator)


def _call(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the rule of a function that is given sparse tensors."""
    for alias in ("input", "self", "mat1"):
        if alias in kwargs:
            args = (kwargs.pop(alias), *args)
    if kwargs.get("out") is None and not any(isinstance(each, Sparse) for each in kwargs.values()):
        if (rule := _rules.get(name)) is not None:
            if not takes(inspect.signature(rule), args, kwargs):
                raise _refused(f"{name} with these arguments")
            return rule(*args, **kwargs)
        if isinstance(args[0], Sparse) and name in _OF_ELEMENTS | _LINEAR:
            x = args[0] if name in _LINEAR else _coalesced(args[0])
            return x.with_values(getattr(torch.Tensor, name)(x.held, *args[1:], **kwargs))
    raise _refused(name)


def _refused(name: str) -> Exception:
    return refused_here(
        f"the program gives a sparse tensor to {name}, which the exporter does not have for sparse tensors: call it "
        "with its to_dense(), or compute with its indices() and values()"
    )


# --- made, converted, and taken apart ---------------------------------------------------------------------------------


def stand_in_for(tensor: torch.Tensor) -> Sparse:
    """What stands for a sparse tensor of the program's own."""
    x = tensor.detach().to_sparse_coo()
    return Sparse(x._indices(), x._values(), x.shape, x.is_coalesced())


def from_dense(x: torch.Tensor) -> Sparse:
    places = x.nonzero()
    return Sparse(places.t(), x[tuple(places.unbind(1))], x.shape, is_ordered=True)


@_rule("to_dense")
def _to_dense(x: Sparse, dtype: torch.dtype | None = None, *, masked_grad: bool | None = None) -> torch.Tensor:
    values = x.held if dtype is None else x.held.to(dtype)
    zeros = torch.zeros(tuple(x.shape), dtype=values.dtype, device=values.device)
    return zeros.index_put(tuple(x.places.unbind(0)), values, accumulate=True)


@_rule("coalesce")
def _coalesced(x: Sparse) -> Sparse:
    """Values at the same place are added up."""
    if x.is_ordered:
        return x
    axes = len(x.places)
    number, step = torch.zeros_like(x.places[0]), 1
    steps: list[Any] = []
    for axis in reversed(range(axes)):
        number = number + x.places[axis] * step
        steps.insert(0, step)
        step = step * x.shape[axis]
    unique, group = torch.unique(number, return_inverse=True)
    places = torch.stack([unique // each % size for each, size in zip(steps, x.shape, strict=False)])
    values = x.held.new_zeros((unique.shape[0], *x.held.shape[1:])).index_add(0, group, x.held)
    return Sparse(places, values, x.shape, is_ordered=True)


@_rule("indices", "values")
def _part(x: Sparse, name: str) -> torch.Tensor:
    if not x.is_ordered:
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
    return x.places if name == "indices" else x.held


@_rule("is_coalesced")
def _is_coalesced(x: Sparse) -> bool:
    if not x.is_ordered and not isinstance(x.places.shape[1], int):
        raise _refused("is_coalesced, and it has a dynamic number of elements, of which up to one are in order")
    return x.is_ordered


@_rule("to_sparse", "to_sparse_coo")
def _as_it_is(x: Sparse) -> Sparse:
    return x


_rules |= {
    "_indices": lambda x: x.places,
    "_values": lambda x: x.held,
    "indices": functools.partial(_part, name="indices"),
    "values": functools.partial(_part, name="values"),
    "size": lambda x, dim=None: x.shape if dim is None else x.shape[dim],
    "dim": lambda x: len(x.shape),
    "sparse_dim": lambda x: len(x.places),
    "dense_dim": lambda x: len(x.shape) - len(x.places),
    "_nnz": lambda x: x.held.shape[0],
    "numel": lambda x: functools.reduce(operator.mul, x.shape, 1),
}

# --- arithmetic -------------------------------------------------------------------------------------------------------


@_rule("t")
def _transposed(x: Sparse) -> Sparse:
    _check_matrix(x, "t")
    return Sparse(x.places.flip(0), x.held, (x.shape[1], x.shape[0]))


# Properties of classes are no functions.
Sparse.T = Sparse.mT = property(_transposed)  # type: ignore[attr-defined]


@_rule("transpose")
def _exchanged(x: Sparse, dim0: int, dim1: int) -> Sparse:
    return _transposed(x) if (dim0 - dim1) % 2 else x


@_rule("mm", "matmul", "mv", "spmm", "smm", "_sparse_mm", "sparse_mm")
def _product(x: Any, y: Any) -> Any:
    """For each element of a sparse matrix, the row of the other one is added to the row of the result."""
    if isinstance(y, Sparse):
        if isinstance(x, Sparse):
            raise _refused("a product with another sparse tensor")
        turned = _product(_transposed(y), x.mT if x.dim() == 2 else x)
        return turned.mT if x.dim() == 2 else turned
    _check_matrix(x, "a product")
    if y.dim() > 2:
        raise _refused("a product with a tensor of more than two axes")
    rows, columns = x.places.unbind(0)
    values = x.held if y.dim() == 1 else x.held.unsqueeze(-1)
    zeros = y.new_zeros((x.shape[0], *y.shape[1:]))
    return zeros.index_add(0, rows, values * y.index_select(0, columns))


@_rule("rmatmul")
def _product_from_the_right(x: Sparse, y: torch.Tensor) -> Any:
    return _product(y, x)


@_rule("addmm", "sspaddmm", "_sparse_addmm")
def _added_product(input: Any, mat1: Sparse, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
    return beta * input + alpha * _product(mat1, mat2)


@_rule("add", "radd")
def _sum(x: Any, y: Any, *, alpha: float = 1) -> Any:
    if isinstance(x, Sparse) and isinstance(y, Sparse):
        places, values = torch.cat([x.places, y.places], 1), torch.cat([x.held, y.held * alpha])
        return Sparse(places, values, x.shape)
    one, other = (_to_dense(each) if isinstance(each, Sparse) else each for each in (x, y))
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        raise _refused("a sum with a number")
    return one + other * alpha


@_rule("sub")
def _difference(x: Any, y: Any, *, alpha: float = 1) -> Any:
    return _sum(x, y, alpha=-alpha)


@_rule("mul", "rmul", "multiply")
def _multiple(x: Any, y: Any) -> Any:
    x, y = (x, y) if isinstance(x, Sparse) else (y, x)
    if isinstance(y, Sparse):
        raise _refused("a product with another sparse tensor")
    if isinstance(y, torch.Tensor) and y.dim():
        whole = y.expand(tuple(x.shape))
        return x.with_values(x.held * whole[tuple(x.places.unbind(0))])
    return x.with_values(x.held * y)


@_rule("div", "truediv", "divide")
def _quotient(x: Any, y: Any) -> Any:
    if not isinstance(x, Sparse) or (isinstance(y, torch.Tensor) and y.dim()) or isinstance(y, Sparse):
        raise _refused("a quotient other than by a number")
    return x.with_values(x.held / y)


@_rule("pow")
def _power(x: Any, exponent: Any) -> Any:
    if not isinstance(x, Sparse) or not isinstance(exponent, (int, float)) or exponent <= 0:
        raise _refused("pow")
    x = _coalesced(x)
    return x.with_values(x.held**exponent)


@_rule("sum", "_sparse_sum", "sparse_sum")
def _total(x: Sparse, dim: Any = None, *, dtype: torch.dtype | None = None) -> Any:
    values = x.held if dtype is None else x.held.to(dtype)
    if dim is None:
        return values.sum()
    axes = {axis % len(x.shape) for axis in (dim if isinstance(dim, (list, tuple)) else [dim])}
    kept = [axis for axis in range(len(x.places)) if axis not in axes]
    if not kept or any(axis >= len(x.places) for axis in axes):
        raise _refused("a sum over all of its axes, or over those of its values")
    sizes = [x.shape[axis] for axis in kept] + [*x.shape[len(x.places) :]]
    return _coalesced(Sparse(torch.stack([x.places[axis] for axis in kept]), values, sizes))


@_rule("softmax", "_sparse_softmax", "sparse_softmax")
def _softmax(x: Sparse, dim: int, dtype: torch.dtype | None = None) -> Sparse:
    """Over the elements that are there, which share all places but that on the axis."""
    _check_matrix(x, "softmax")
    x = _coalesced(x)
    values = x.held if dtype is None else x.held.to(dtype)
    row, size = x.places[1 - dim % 2], x.shape[1 - dim % 2]
    least = values.new_full((size,), -float("inf"))
    powers = (values - least.scatter_reduce(0, row, values, "amax")[row]).exp()
    return x.with_values(powers / values.new_zeros((size,)).index_add(0, row, powers)[row])


def _check_matrix(x: Any, name: str) -> None:
    if not isinstance(x, Sparse) or len(x.places) != 2 or len(x.shape) != 2:
        raise _refused(f"{name}, and it is no matrix of numbers")

"""The results of a recorded program: the tensors, which become outputs, and the structure that contains them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn, cast

import msgspec
import torch

from onnx_parity.exporter.containers import Whole, closed, has_names, named_leaves, opened
from onnx_parity.exporter.errors import CaptureError
from onnx_parity.exporter.graph.decisions import Decision, Reconsider
from onnx_parity.exporter.graph.graph import DTYPES, Varying
from onnx_parity.exporter.kinds.quantized import Quantized
from onnx_parity.exporter.recording.leaves import is_marked_number
from onnx_parity.exporter.recording.python_loops.grown_list import GrownList
from onnx_parity.exporter.request.names_in_objects import output_names_in
from onnx_parity.exporter.torch_inside import pytree

__all__ = [
    "LISTS",
    "PLAIN",
    "Kind",
    "Returned",
    "TensorList",
    "TensorOrNone",
    "Written",
    "flattened",
    "spelled_structure",
    "taken_apart",
]

#: Types that may be returned beside tensors. The exported program returns the same values as the recording.
PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size)


class TensorList(Whole, msgspec.Struct, frozen=True, eq=False):
    """A list of data-dependent length, passed between scripts: its stacked items, or a list of the graph."""

    tensor: torch.Tensor
    of_numbers: bool
    stacked: bool

    REMEDY: ClassVar[str] = (
        "Python would do so only once, while the program is recorded. Do it in a function with @torch.jit.script, or "
        "export torch.jit.script(model)"
    )

    def _refuse(self, *_: object) -> NoReturn:
        refusal = CaptureError(f"the program iterates over or indexes a list of unknown length. {self.REMEDY}")
        raise Reconsider(Decision.PARTS_OF_EXAMPLE, refusal=refusal)

    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __add__ = __radd__ = _refuse


class TensorOrNone(Whole, msgspec.Struct, frozen=True, eq=False):
    """A tensor or None, depending on data, as a flag and a tensor. `optional` has both in one value, to be returned."""

    present: Any
    value: Any
    optional: torch.Tensor | None = None


class Kind(enum.Enum):
    """How one result of a program is returned by the exported program."""

    TENSOR = enum.auto()
    #: A complex tensor, whose output has the real and the imaginary parts on a last axis of 2.
    COMPLEX = enum.auto()
    #: A number that depends on the input: an output of one element, which is returned as an int, a float or a bool.
    NUMBER = enum.auto()
    #: A list of data-dependent length: a sequence of tensors, or of tensors that are returned as numbers.
    LIST = enum.auto()
    NUMBERS = enum.auto()
    #: The same as a tuple of tensors.
    TUPLE = enum.auto()
    #: A tensor or None, depending on data: an optional.
    OPTIONAL = enum.auto()
    #: Any other value, which is returned unchanged.
    PLAIN = enum.auto()


#: What has as many items as the model finds.
LISTS = frozenset({Kind.LIST, Kind.NUMBERS, Kind.TUPLE})


class Written(msgspec.Struct, frozen=True):
    """A buffer or attribute that a program wrote to, by its path from the root; or an input, with its position too."""

    name: str
    place: int | None = None


class Returned(msgspec.Struct, frozen=True):
    """A structure and its leaves. `plain` has None in place of each leaf that is an output."""

    spec: pytree.TreeSpec
    kinds: Sequence[Kind]
    plain: Sequence[Any]
    #: Names of the outputs, if the structure is or holds an object with attributes.
    names: Sequence[str] | None = None
    #: What the program wrote to, if the new values are outputs after its own (`return_written`).
    written: tuple[Written, ...] = ()

    @property
    def outputs(self) -> int:
        """How many outputs of the model these are. One that tells whether its assumptions hold comes after them."""
        return sum(kind is not Kind.PLAIN for kind in self.kinds) + len(self.written)


class _Leaf:
    """A placeholder for a tensor or a number."""

    def __repr__(self) -> str:
        return "_"


def spelled_structure(spec: pytree.TreeSpec) -> str:
    """A structure as it is written in Python, with a `_` for each leaf."""
    return repr(closed(pytree.tree_unflatten([_Leaf()] * spec.num_leaves, spec), lambda *parts: _Leaf()))


def flattened(result: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """The leaves of a result, and its structure, with a plain dict for each subclass of dict that is not registered."""
    leaves, spec = pytree.tree_flatten(result)
    while any(isinstance(leaf, dict) for leaf in leaves):
        result = pytree.tree_unflatten([dict(leaf) if isinstance(leaf, dict) else leaf for leaf in leaves], spec)
        leaves, spec = pytree.tree_flatten(result)
    return leaves, spec


def taken_apart(result: Any) -> tuple[Returned, list[torch.Tensor]]:
    """The structure of a result, and its tensors. Numbers become tensors, but for those that objects hold."""
    result = opened(result)
    leaves, spec = flattened(result)
    if any(isinstance(leaf, Quantized) for leaf in leaves):
        parts = [leaf.taken_apart() if isinstance(leaf, Quantized) else leaf for leaf in leaves]
        result = pytree.tree_unflatten(parts, spec)
        leaves, spec = flattened(result)
    in_object = has_names(result)
    kinds: list[Kind] = []
    plain: list[Any] = []
    tensors: list[torch.Tensor] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            plain_kind = Kind.COMPLEX if leaf.is_complex() else Kind.TENSOR
            kinds.append(Kind.NUMBER if is_marked_number(leaf) else plain_kind)
            tensors.append(leaf)
        elif isinstance(leaf, TensorList):
            kinds.append(Kind.NUMBERS if leaf.of_numbers else Kind.LIST)
            tensors.append(leaf.tensor)
        elif isinstance(leaf, GrownList):
            of_tensors = Kind.TUPLE if leaf.is_tuple else Kind.LIST
            kinds.append(Kind.NUMBERS if leaf.items_of_loop.of_numbers == [True] else of_tensors)
            tensors.append(leaf.items_of_loop.only)
        elif isinstance(leaf, TensorOrNone):
            kinds.append(Kind.OPTIONAL)
            assert leaf.optional is not None, "only a script returns it"
            tensors.append(leaf.optional)
        elif isinstance(leaf, Varying) or (type(leaf) in DTYPES and not in_object):
            kinds.append(Kind.NUMBER)
            tensors.append(torch.scalar_tensor(cast("int", leaf), dtype=DTYPES[type(leaf)]))
        elif isinstance(leaf, PLAIN) or in_object:
            kinds.append(Kind.PLAIN)
        elif isinstance(leaf, Whole) and leaf.refusal_as_result:
            raise CaptureError(leaf.refusal_as_result)
        else:
            raise CaptureError(
                f"the program returns a {type(leaf).__qualname__}, which holds no tensor in its attributes: return "
                "tensors, or tuples, lists, dicts, dataclasses and other objects that hold them"
            )
        plain.append(leaf if kinds[-1] is Kind.PLAIN else None)
    if not tensors:
        raise CaptureError(f"the program returns {result!r}, which has no tensor: return at least one tensor")
    return Returned(spec, kinds, plain, _names(result, kinds) if in_object else None), tensors


def _names(result: Any, kinds: Sequence[Kind]) -> list[str] | None:
    paths = [path for path, _ in named_leaves(result)]
    return output_names_in(result, [path for path, kind in zip(paths, kinds, strict=True) if kind is not Kind.PLAIN])

"""What a program returned: the tensors, which become outputs, and the structure that held them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, cast

import torch
from torch.utils import _pytree as pytree

from onnx_parity.exporter.capture.graph.graph import DTYPES, Varying
from onnx_parity.exporter.errors import CaptureError

__all__ = [
    "Kind",
    "Returned",
    "TensorList",
    "TensorOrNone",
    "Written",
    "mark_number",
    "spelled_structure",
    "taken_apart",
]

#: What may stand beside tensors: it is returned by the exported program as the recording returned it.
_PLAIN = (int, float, complex, bool, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_MARK = "_onnx_parity_number"


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """A list whose length depends on values, between scripts, which can do something with it: its items, stacked, or a
    list of the graph's.
    """

    tensor: torch.Tensor
    of_numbers: bool
    stacked: bool

    REMEDY: ClassVar[str] = (
        "Python would do that only once, while the program is recorded. Do it in a function with @torch.jit.script, or "
        "export torch.jit.script(model)"
    )

    def _refuse(self, *_: object) -> NoReturn:
        raise CaptureError(f"the program takes apart a list of unknown length. {self.REMEDY}")

    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __add__ = __radd__ = _refuse


@dataclass(frozen=True, slots=True, eq=False)
class TensorOrNone:
    """A tensor, or None as values have it: whether there is one, and which. `optional` is both in one value, where it
    is returned.
    """

    present: Any
    value: Any
    optional: torch.Tensor | None = None


def mark_number(tensor: torch.Tensor) -> None:
    """Say that a tensor is what Python has as a number, to be given back as one if it is returned."""
    setattr(tensor, _MARK, True)


class Kind(enum.Enum):
    """What becomes of one thing that a program returned."""

    TENSOR = enum.auto()
    #: A number that depends on the input: an output of one element, which is returned as an int, a float or a bool.
    NUMBER = enum.auto()
    #: A list whose length depends on values: a sequence of tensors, or of tensors that are given back as numbers.
    LIST = enum.auto()
    NUMBERS = enum.auto()
    #: A tensor, or None as values have it: an optional.
    OPTIONAL = enum.auto()
    #: Anything else: as it was.
    PLAIN = enum.auto()


@dataclass(frozen=True, slots=True)
class Written:
    """A buffer or attribute that a program wrote to, by its name from the root; or an input, then by its place too."""

    name: str
    place: int | None = None


@dataclass(frozen=True, slots=True)
class Returned:
    """A structure and its leaves. `plain` holds None in the place of each leaf that is an output."""

    spec: pytree.TreeSpec
    kinds: Sequence[Kind]
    plain: Sequence[Any]
    #: What the program wrote to, where the new values are outputs after its own.
    written: tuple[Written, ...] = ()


class _Leaf:
    """Stands for a tensor or a number."""

    def __repr__(self) -> str:
        return "_"


def spelled_structure(spec: pytree.TreeSpec) -> str:
    """A structure as it is written in Python, each leaf a `_`."""
    return repr(pytree.tree_unflatten([_Leaf()] * spec.num_leaves, spec))


def taken_apart(result: Any, numbers_are_outputs: bool = False) -> tuple[Returned, list[torch.Tensor]]:
    """The structure of a result, and the tensors in it. A number that is known can be an output too."""
    leaves, spec = pytree.tree_flatten(result)
    kinds: list[Kind] = []
    plain: list[Any] = []
    tensors: list[torch.Tensor] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            kinds.append(Kind.NUMBER if getattr(leaf, _MARK, False) else Kind.TENSOR)
            tensors.append(leaf)
        elif isinstance(leaf, TensorList):
            kinds.append(Kind.NUMBERS if leaf.of_numbers else Kind.LIST)
            tensors.append(leaf.tensor)
        elif isinstance(leaf, TensorOrNone):
            kinds.append(Kind.OPTIONAL)
            assert leaf.optional is not None, "only a script returns it"
            tensors.append(leaf.optional)
        elif isinstance(leaf, Varying) or (numbers_are_outputs and type(leaf) in DTYPES):
            kinds.append(Kind.NUMBER)
            tensors.append(torch.scalar_tensor(cast("int", leaf), dtype=DTYPES[type(leaf)]))
        elif isinstance(leaf, _PLAIN):
            kinds.append(Kind.PLAIN)
        else:
            raise CaptureError(
                f"the program returns a {type(leaf).__qualname__}, which cannot be looked into. Return tensors in "
                "tuples, lists, dicts and named tuples, or tell torch what is inside: torch.export.register_dataclass, "
                "torch.utils._pytree.register_pytree_node"
            )
        plain.append(leaf if kinds[-1] is Kind.PLAIN else None)
    if not tensors:
        raise CaptureError(f"the program returns no tensor, but {result!r}: a model without outputs cannot be run")
    return Returned(spec, kinds, plain), tensors

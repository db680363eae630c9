"""Lists that a loop of Python over a dynamic size has filled: stacked items, whose number is not known at export."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, SupportsIndex

import torch

from onnx_parity.exporter.containers import Whole
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.recording.blocks import Blocks
from onnx_parity.exporter.recording.leaves import is_number
from onnx_parity.exporter.recording.python_loops.columns import (
    as_list,
    changed_column,
    extended_column,
    is_list,
    item_of_column,
    joined_items,
    length_of_column,
    pieces_as_list,
    replaced_in_column,
)
from onnx_parity.exporter.sizes.looped import Items
from onnx_parity.exporter.torch_inside import pytree
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller, current_frame
from onnx_parity.exporter.torch_inside.loops.loops_of_python import is_in_unpacking, number_unpacked
from onnx_parity.exporter.torch_inside.this_thread import recorder_here

__all__ = ["GrownList", "Stacked", "Unfilled", "numbers_in", "parts_of", "pieces_of", "repeated"]

asks_for_its_caller(__file__)

_REMEDY = (
    "the program has a list of as many items as a dynamic size says, and {use}: of such a list it can take "
    "torch.stack, torch.cat, sum, len, one item, a slice, and a loop over it"
)
_OF_NONE = (
    "the program {what} a list of None that has as many items as a dynamic size says: it can put tensors of one size "
    "into its places, and join all of them with torch.stack or torch.cat. Otherwise append to an empty list"
)
#: What joins tensors, and whether along a new axis.
_JOINING: dict[Any, bool] = {torch.stack: True, torch.cat: False, torch.concat: False, torch.concatenate: False}


class Stacked(Items):
    """The items of a list as one column for each leaf of an item (see `columns.py`).

    It stands in a list of Python for the items whose number is not known. torch asks it what a function that is given
    such a list does.
    """

    #: Whether some of the items may still be None in the program, which the model does not know.
    may_have_none = False

    def __init__(
        self,
        spec: pytree.TreeSpec,
        stacks: Sequence[torch.Tensor],
        of_numbers: Sequence[bool],
        length: int | torch.SymInt | None = None,
    ) -> None:
        """`length` is the number of items, where it is known."""
        self.spec, self.stacks, self.of_numbers = spec, [*stacks], [*of_numbers]
        self._known_length = length

    @classmethod
    def of_tensors(cls, stack: torch.Tensor) -> Stacked:
        """Items that are tensors, stacked."""
        return cls(pytree.tree_flatten(stack)[1], [stack], [False])

    @classmethod
    def of_list(cls, items: list[Any]) -> Stacked:
        """The items of a list, of which there is at least one, stacked."""
        leaves, spec = pytree.tree_flatten(items[0])
        return _stacked(items, cls(spec, [], [*map(is_number, leaves)]))

    @property
    def length(self) -> Any:  # type: ignore[override]
        known = self._length_if_known()
        return length_of_column(self.stacks[0]) if known is None else known

    def _length_if_known(self) -> Any:
        """The number of items, unless it has to be read from a list of the model."""
        if self._known_length is not None:
            return self._known_length
        return next((each.shape[0] for each in self.stacks if not is_list(each)), None)

    def with_none(self, may_have_none: bool) -> Stacked:
        """The same items, of which some may be None."""
        self.may_have_none = may_have_none
        return self

    def item(self, place: Any) -> Any:
        if self.may_have_none:
            raise refused_here(_OF_NONE.format(what="takes an item of"))
        parts = [item_of_column(stack, place) for stack in self.stacks]
        leaves = [part.item() if number else part for part, number in zip(parts, self.of_numbers, strict=True)]
        return pytree.tree_unflatten(leaves, self.spec)

    def __getitem__(self, place: Any) -> Any:
        # What is less than 0 counts from the end in the model, too.
        return self.item(place) if isinstance(place, torch.SymInt) else super().__getitem__(place)

    def unpacked(self, count: int) -> Iterator[Any]:
        """The items that the program assigns to so many variables."""
        return iter(self)

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Stacked:
        columns = [changed_column(stack, change) for stack in self.stacks]
        return Stacked(self.spec, columns, self.of_numbers).with_none(self.may_have_none)

    def joined(self, other: Stacked) -> Stacked:
        if self.spec != other.spec:
            raise refused_here(_REMEDY.format(use="puts items of another structure into it"))
        stacks = [extended_column(*pair) for pair in zip(self.stacks, other.stacks, strict=True)]
        one, another = self._length_if_known(), other._length_if_known()
        length = None if one is None or another is None else one + another
        return Stacked(self.spec, stacks, self.of_numbers, length).with_none(self.may_have_none or other.may_have_none)

    def together(self, axis: int, *, new_axis: bool) -> torch.Tensor:
        """All items in one tensor, along an axis that they have or a new one."""
        return joined_items(self.only, axis, new_axis=new_axis)

    @property
    def only(self) -> torch.Tensor:
        """All items as one column."""
        if len(self.stacks) != 1 or self.spec.num_children:
            raise refused_here(_REMEDY.format(use="joins its items, which are no tensors"))
        return self.stacks[0]

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func not in _JOINING:
            name = getattr(func, "__name__", "a function")
            raise refused_here(_REMEDY.format(use=f"gives it to {name}"))
        return _join(func, *args, **(kwargs or {}))

    def _refuse(self, *_: Any) -> NoReturn:
        raise refused_here(_REMEDY.format(use="reads it where it cannot be followed, as in an attribute or a global"))

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __matmul__ = __neg__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(torch.Tensor, name):
            raise AttributeError(name)
        self._refuse()


class Unfilled(Stacked):
    """As many None as a dynamic size says, in whose places the program puts items."""

    def __init__(self, count: int | torch.SymInt) -> None:
        super().__init__(pytree.tree_flatten(None)[1], [], [], count)

    def filled(self, like: Stacked) -> Stacked:
        """As many items of zeros, like those of another list."""
        sizes: list[Any] = [size for stack in like.stacks for size in stack.shape[1:]]
        are_known = all(isinstance(size, int) or size.node.shape_env.is_in_example(size) for size in sizes)
        if any(map(is_list, like.stacks)) or not are_known:
            raise refused_here(_OF_NONE.format(what="puts tensors whose sizes differ, or depend on values, into"))
        stacks = [
            torch.zeros([self.length, *stack.shape[1:]], dtype=stack.dtype, device=stack.device)
            for stack in like.stacks
        ]
        return Stacked(like.spec, stacks, like.of_numbers).with_none(True)

    def item(self, place: Any) -> Any:
        return None


class Pieces(Stacked):
    """The pieces of a tensor along an axis, each of this size but for the last one."""

    def __init__(
        self, whole: torch.Tensor, size: int, axis: int, in_example: Callable[[], Sequence[torch.Tensor]]
    ) -> None:
        """`in_example` splits the tensor into as many as there are of the example's."""
        self._whole, self._size, self._axis, self._in_example = whole, size, axis, in_example
        self.spec, self.of_numbers = pytree.tree_flatten(whole)[1], [False]
        count: Any = (whole.shape[axis] + size - 1) // size
        self._known_length = count if count.node.shape_env.never_exceeds(1, count) else torch.sym_max(1, count)

    @property
    def stacks(self) -> list[torch.Tensor]:  # type: ignore[override]
        return [pieces_as_list(self._whole, self._size, self._axis)]

    def item(self, place: Any) -> torch.Tensor:
        begin = place * self._size
        return self._whole[(slice(None),) * self._axis + (slice(begin, begin + self._size),)]

    def __getitem__(self, place: Any) -> Any:
        return Items.__getitem__(self, place)

    def as_in_example(self) -> Iterator[torch.Tensor]:
        return iter(self._in_example())

    def unpacked(self, count: int) -> Iterator[torch.Tensor]:
        # Python raises an error if there are more or fewer.
        (self.length == count).node.expect_true("", 0)
        return map(self.item, range(count))

    def together(self, axis: int, *, new_axis: bool) -> torch.Tensor:
        is_whole = not new_axis and axis % self._whole.ndim == self._axis
        return self._whole if is_whole else super().together(axis, new_axis=new_axis)


def _join(func: Callable[..., Any], tensors: Sequence[Any], dim: int = 0, **options: Any) -> torch.Tensor:
    """`torch.stack` or `torch.cat` of tensors among which are stacked ones."""
    dim = options.pop("axis", dim)
    along_new = _JOINING[func]
    parts = []
    for each in list.__iter__(tensors) if isinstance(tensors, GrownList) else tensors:
        if not isinstance(each, Stacked):
            parts.append(each.unsqueeze(dim) if along_new else each)
            continue
        parts.append(each.together(dim, new_axis=along_new))
    return parts[0].clone() if len(parts) == 1 and not options else torch.cat(parts, dim, **options)


class GrownList(Whole, list[Any]):
    """A list that has as many items as a dynamic size says. As a plain list it has one item, the stacked ones."""

    def __init__(self, items: Stacked, *, is_tuple: bool = False) -> None:
        """`is_tuple` says whether it stands for a tuple, as which it is returned."""
        super().__init__([items])
        self.is_tuple = is_tuple

    @property
    def items_of_loop(self) -> Stacked:
        stacked: Stacked = list.__getitem__(self, 0)
        return stacked

    def become(self, items: Stacked) -> GrownList:
        """Have these items from now on."""
        list.__setitem__(self, 0, items)
        return self

    def __len__(self) -> int:
        return 1 if is_in_unpacking(current_frame(1)) else int(self.items_of_loop.length)

    def __bool__(self) -> bool:
        return bool(self.items_of_loop)

    def __iter__(self) -> Iterator[Any]:
        if is_in_unpacking(current_frame(1)):
            return iter([self.items_of_loop])
        count = number_unpacked(current_frame(1))
        return iter(self.items_of_loop) if count is None else self.items_of_loop.unpacked(count)

    def __reversed__(self) -> Iterator[Any]:
        return reversed(self.items_of_loop)

    def __getitem__(self, place: Any) -> Any:
        if not isinstance(place, slice):
            return self.items_of_loop[place]
        step = 1 if place.step is None else place.step
        if step > 0:
            return GrownList(self.items_of_loop.changed(lambda stack: stack[place]))
        if place.start is None and place.stop is None:
            return GrownList(self.items_of_loop.changed(lambda stack: stack.flip([0])[::-step]))
        raise refused_here(_REMEDY.format(use="takes a slice of it backwards, from one item to another"))

    def with_lists(self, differ: Sequence[bool]) -> GrownList:
        """The same items, with these leaves of them as lists of the model."""
        stacked = self.items_of_loop
        if len(differ) != len(stacked.stacks):
            return self
        columns = [as_list(each) if is_one else each for each, is_one in zip(stacked.stacks, differ, strict=True)]
        return GrownList(Stacked(stacked.spec, columns, stacked.of_numbers).with_none(stacked.may_have_none))

    def as_tensor(
        self, dtype: torch.dtype | None = None, device: Any = None, requires_grad: bool = False
    ) -> torch.Tensor:
        """What `torch.tensor` makes of the list."""
        stacked = self.items_of_loop
        if any(map(is_list, stacked.stacks)) or any(child.num_children for child in stacked.spec.children()):
            raise refused_here(_REMEDY.format(use="makes a tensor of its items, which are no numbers"))
        columns = []
        for column, of_number in zip(stacked.stacks, stacked.of_numbers, strict=True):
            of_column = torch.get_default_dtype() if of_number and column.is_floating_point() else column.dtype
            columns.append(column.to(device=device, dtype=dtype or of_column))
        return torch.stack(columns, 1) if stacked.spec.num_children else columns[0].flatten()

    def __setitem__(self, place: Any, item: Any) -> None:
        if isinstance(place, slice):
            self._refuse()
        stacked = self.items_of_loop
        if place < 0:
            place = stacked.length + place
        if isinstance(stacked, Unfilled):
            leaves, spec = pytree.tree_flatten(item)
            stacked = stacked.filled(alone(item, Stacked(spec, [], [*map(is_number, leaves)])))
        others = alone(item, stacked).stacks
        if [*map(is_number, pytree.tree_leaves(item))] != stacked.of_numbers:
            raise refused_here(_REMEDY.format(use="puts a tensor in the place of a number, or a number in that of one"))
        columns = [replaced_in_column(*pair, place) for pair in zip(stacked.stacks, others, strict=True)]
        self.become(Stacked(stacked.spec, columns, stacked.of_numbers).with_none(stacked.may_have_none))

    @classmethod
    def of(cls, items: Sequence[Any], like: Stacked) -> GrownList:
        """A list of known items, stacked like those of another one."""
        return cls(_stacked(items, like))

    def insert_all(self, items: Sequence[Any]) -> None:
        """Insert items before those that the list has."""
        self.become(_stacked(items, self.items_of_loop).joined(self.items_of_loop))

    def append(self, item: Any) -> None:
        self.extend([item])

    def extend(self, more: Any) -> None:
        self.become(self.items_of_loop.joined(_stacked(more, self.items_of_loop)))

    def insert(self, place: SupportsIndex, item: Any) -> None:
        if place != 0:
            raise refused_here(_REMEDY.format(use="inserts an item within it"))
        self.insert_all([item])

    def reverse(self) -> None:
        self.become(self[::-1].items_of_loop)

    def pop(self, place: SupportsIndex = -1) -> Any:
        if place not in (0, -1):
            raise refused_here(_REMEDY.format(use="removes an item within it"))
        item = self[place]
        self.become(self[1:].items_of_loop if place == 0 else self[:-1].items_of_loop)
        return item

    def copy(self) -> GrownList:
        return GrownList(self.items_of_loop)

    def __add__(self, other: Any) -> GrownList:
        return GrownList(self.items_of_loop.joined(_stacked(other, self.items_of_loop)))

    def __radd__(self, other: Any) -> GrownList:
        return GrownList(_stacked(other, self.items_of_loop).joined(self.items_of_loop))

    def __iadd__(self, other: Any) -> GrownList:
        self.extend(other)
        return self

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise refused_here(_REMEDY.format(use="does something else with it"))

    __contains__ = __delitem__ = __mul__ = __rmul__ = __eq__ = _refuse
    clear = count = index = remove = sort = _refuse
    __hash__ = None


def repeated(items: list[Any] | tuple[Any, ...], count: torch.SymInt) -> GrownList:
    """A list that has numbers, or None, so many times."""
    is_tuple = isinstance(items, tuple)
    if all(each is None for each in items):
        return GrownList(Unfilled(len(items) * count), is_tuple=is_tuple)
    return GrownList(Stacked.of_list([*items]).changed(lambda column: column.repeat(count)), is_tuple=is_tuple)


def parts_of(whole: torch.Tensor) -> GrownList:
    """The parts of a tensor along its first axis."""
    return GrownList(Stacked(pytree.tree_flatten(whole)[1], [whole], [False]), is_tuple=True)


def numbers_in(tensor: torch.Tensor) -> GrownList:
    """The numbers of a tensor with one axis."""
    return GrownList(Stacked(pytree.tree_flatten(0)[1], [tensor], [True]))


def pieces_of(whole: torch.Tensor, size: int, axis: int, in_example: Callable[[], Sequence[torch.Tensor]]) -> Any:
    """The pieces of a tensor along an axis. See `Pieces`."""
    pieces = Pieces(whole, size, axis % whole.ndim, in_example)
    return GrownList(pieces, is_tuple=True) if isinstance(pieces.length, torch.SymInt) else in_example()


def _stacked(items: Any, like: Stacked) -> Stacked:
    """The items of a list, stacked."""
    if isinstance(items, GrownList):
        return items.items_of_loop
    whole = like.changed(lambda stack: stack[:0]) if not items else None
    for item in items:
        piece = item if isinstance(item, Stacked) else alone(item, like)
        whole = piece if whole is None else whole.joined(piece)
    assert whole is not None
    return whole


def alone(item: Any, like: Stacked) -> Stacked:
    """One item, as a list of the same structure."""
    leaves, spec = pytree.tree_flatten(item)
    if spec != like.spec:
        raise refused_here(_REMEDY.format(use="puts items of another structure into it"))
    # A number of Python's has 64 bits.
    blocks = Blocks(recorder_here())
    return Stacked(spec, [blocks.as_tensor(leaf).unsqueeze(0) for leaf in leaves], like.of_numbers)

"""Objects that hold tensors, such as the cache of a language model: taken apart by their attributes, and put together.

torch's pytree knows tuples, lists, dicts and the classes that are registered with it; for it, any other object is one
leaf. `opened` replaces each object that holds tensors, at any depth, by an `Opened`, which pytree knows, and `closed`
makes new objects of the same classes. An object that belongs to a structure twice, or that refers to itself, is one
object afterwards too. A quantized tensor is taken apart into its integers, its scale and its zero point.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar, cast

import msgspec
import torch

from onnx_parity.exporter.errors import ArgumentError
from onnx_parity.exporter.torch_inside import pytree

__all__ = [
    "Opened",
    "QuantizedTensor",
    "Whole",
    "attributes_of",
    "children",
    "closed",
    "has_names",
    "holds_objects",
    "leaves_of",
    "map_tensors",
    "named_leaves",
    "opened",
    "opened_quantized",
]


class Whole:
    """A base of classes of this exporter that hold tensors and are leaves all the same."""

    __slots__ = ()

    #: Why a program cannot return one, if it cannot.
    refusal_as_result: ClassVar[str] = ""


#: How many values are looked at within one structure.
_MOST = 100_000
#: Values of these types hold no tensors, or are not taken apart: modules are programs, and not data.
_WHOLE = (
    Whole, torch.Tensor, torch.nn.Module, torch.dtype, torch.device, torch.Size, torch.Generator, torch.SymInt,
    torch.SymFloat, torch.SymBool, int, float, complex, str, bytes, type(None), type, range, slice, FunctionType,
    MethodType, BuiltinFunctionType, ModuleType, functools.partial,
)  # fmt: skip
#: Types of leaves that need no further look.
_PLAIN = frozenset({int, float, bool, str, type(None)})
#: What pytree registers itself. Other registered classes are the user's, and have names for what they hold.
_ORDINARY = frozenset(pytree.BUILTIN_TYPES)


class Opened(msgspec.Struct, eq=False):
    """An object that holds tensors: its class, its number within the structure, its items and its attributes."""

    cls: type
    number: int
    #: The items of an object that is itself a list or a dict.
    items: list[Any] | dict[Any, Any] | None
    attributes: dict[str, Any]
    #: The attributes that are items too, as in a dict whose keys can be read as attributes.
    mirrored: tuple[str, ...] = ()

    def __repr__(self) -> str:
        held = ", ".join(f"{name}={value!r}" for name, value in self.attributes.items())
        return f"{self.cls.__qualname__}({held})"


class QuantizedTensor:
    """The class of an `Opened` that is a quantized tensor."""


class _Again(msgspec.Struct, frozen=True):
    """A further occurrence of an object in the structure, by the number of the object."""

    number: int


def _flatten(node: Opened) -> tuple[list[Any], Any]:
    items = [] if node.items is None else [node.items]
    return [*items, *node.attributes.values()], (
        node.cls, node.number, bool(items), tuple(node.attributes), node.mirrored,
    )  # fmt: skip


def _unflatten(values: Any, context: Any) -> Opened:
    cls, number, has_items, names, mirrored = context
    held = list(values)
    items = held.pop(0) if has_items else None
    return Opened(cls, number, items, dict(zip(names, held, strict=True)), mirrored)


def _flatten_with_keys(node: Opened) -> tuple[list[tuple[Any, Any]], Any]:
    values, context = _flatten(node)
    names = [*([] if node.items is None else ["items"]), *node.attributes]
    return list(zip(map(pytree.GetAttrKey, names), values, strict=True)), context


pytree.register_pytree_node(
    Opened,
    _flatten,
    _unflatten,
    serialized_type_name="onnx_parity.Opened",
    flatten_with_keys_fn=_flatten_with_keys,
)


# --- ordinary structures ----------------------------------------------------------------------------------------------


def leaves_of(tree: Any) -> list[Any]:
    """What `pytree.tree_leaves` returns, which takes ten times as long for tuples, lists and dicts."""
    leaves: list[Any] = []
    _add_leaves(tree, leaves)
    return leaves


def map_tensors(function: Callable[[torch.Tensor], Any], tree: Any) -> Any:
    """A structure with what the function makes of each tensor.

    For a tuple of tensors, which most programs are given, torch's own takes forty times as long: a twentieth of a cell.
    """
    if type(tree) is tuple and all(isinstance(each, torch.Tensor) for each in tree):
        return tuple(map(function, tree))
    return pytree.tree_map_only(torch.Tensor, function, tree)


def _add_leaves(tree: Any, leaves: list[Any]) -> None:
    kind = type(tree)
    if kind is tuple or kind is list:
        for each in tree:
            _add_leaves(each, leaves)
    elif kind is dict:
        for each in tree.values():
            _add_leaves(each, leaves)
    elif kind is torch.Tensor:
        leaves.append(tree)
    else:
        leaves.extend(pytree.tree_leaves(tree))


def _is_ordinary(tree: Any) -> bool:
    """Whether a structure consists of tuples, lists and dicts alone, with nothing in them that is taken apart."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return all(map(_is_ordinary, tree))
    if kind is dict:
        return all(map(_is_ordinary, tree.values()))
    if isinstance(tree, torch.Tensor):
        return not tree.is_quantized
    return kind in _PLAIN


# --- opening ----------------------------------------------------------------------------------------------------------


def opened(tree: Any) -> Any:
    """The structure with an `Opened` in the place of each object that holds tensors."""
    if _is_ordinary(tree):
        return tree
    leaves, spec = pytree.tree_flatten(tree)
    if all(isinstance(leaf, _WHOLE) and not _is_quantized(leaf) for leaf in leaves):
        return tree
    opening = _Opening()
    return pytree.tree_unflatten([opening.leaf(leaf)[0] for leaf in leaves], spec)


def opened_quantized(ints: Any, scale: Any, zero_point: Any, number: int = -1) -> Opened:
    """A quantized tensor, taken apart: integers, and a float64 and an int64 without axes."""
    return Opened(QuantizedTensor, number, None, {"value": ints, "scale": scale, "zero_point": zero_point})


def _is_quantized(value: Any) -> bool:
    """Whether a value is a quantized tensor that is taken apart. Others have several scales, or integers of 32 bits."""
    return (
        isinstance(value, torch.Tensor)
        and value.is_quantized
        and value.dtype in (torch.quint8, torch.qint8)
        and value.qscheme() is torch.per_tensor_affine
    )


def holds_objects(tree: Any) -> bool:
    """Whether a structure holds objects, opened ones or others, that a program may put tensors into."""
    if _is_ordinary(tree):
        return False
    leaves = pytree.tree_leaves(tree, is_leaf=lambda node: isinstance(node, Opened))
    return any(not isinstance(leaf, _WHOLE) for leaf in leaves)


class _Opening:
    """The opening of one structure."""

    def __init__(self) -> None:
        self._seen = 0
        #: The numbers of objects that hold tensors, or that are being opened, by identity; None for others.
        self._numbers: dict[int, int | None] = {}
        #: Kept alive, so that no other object gets the identity of one of them.
        self._objects: list[Any] = []

    def leaf(self, value: Any) -> tuple[Any, bool]:
        """A leaf of pytree: opened if it holds tensors, and itself otherwise. And whether it holds any."""
        if _is_quantized(value):
            self._objects.append(value)
            scale = torch.tensor(value.q_scale(), dtype=torch.float64)
            zero_point = torch.tensor(value.q_zero_point(), dtype=torch.int64)
            return opened_quantized(value.int_repr(), scale, zero_point, len(self._objects) - 1), True
        if isinstance(value, _WHOLE):
            return value, isinstance(value, torch.Tensor)
        if id(value) in self._numbers:
            number = self._numbers[id(value)]
            return (value, False) if number is None else (_Again(number), True)
        self._count(value)
        if isinstance(value, (set, frozenset)):
            if any(isinstance(item, torch.Tensor) for item in value):
                raise ArgumentError(
                    "a set among the arguments or results holds tensors, which have no order there: give a list"
                )
            return value, False
        if isinstance(value, tuple):
            # Not a named tuple, which pytree knows.
            if any(isinstance(item, torch.Tensor) for item in value):
                raise _not_made_of_attributes(type(value))
            return value, False
        attributes = attributes_of(value)
        items = list(value) if isinstance(value, list) else dict(value) if isinstance(value, dict) else None
        if not attributes and not items:
            return value, False
        mirrored = tuple(
            name for name, held in attributes.items() if isinstance(items, dict) and items.get(name, attributes) is held
        )
        number = len(self._objects)
        self._objects.append(value)
        self._numbers[id(value)] = number
        opened_items, holds = self._tree(items)
        parts = {}
        for name in (name for name in attributes if name not in mirrored):
            parts[name], has = self._tree(attributes[name])
            holds = holds or has
        if not holds:
            self._numbers[id(value)] = None
            return value, False
        _new(type(value))
        return Opened(type(value), number, opened_items, parts, mirrored), True

    def _tree(self, tree: Any) -> tuple[Any, bool]:
        if isinstance(tree, _WHOLE):
            return self.leaf(tree)
        leaves, spec = pytree.tree_flatten(tree)
        if len(leaves) == 1 and leaves[0] is tree:
            return self.leaf(tree)
        done = [self.leaf(leaf) for leaf in leaves]
        return pytree.tree_unflatten([value for value, _ in done], spec), any(has for _, has in done)

    def _count(self, value: Any) -> None:
        self._seen += 1
        if self._seen > _MOST:
            raise ArgumentError(
                f"an argument or a result refers to more than {_MOST:,} objects, among them a "
                f"{type(value).__qualname__}: give an object that holds only what the program reads"
            )


def attributes_of(value: Any) -> dict[str, Any]:
    """What an object keeps in its `__dict__` and its slots."""
    attributes = getattr(value, "__dict__", None)
    held = dict(attributes) if isinstance(attributes, dict) else {}
    for name in _slots(type(value)):
        if hasattr(value, name):
            held[name] = getattr(value, name)
    return held


def _slots(cls: type) -> tuple[str, ...]:
    slots = (vars(base).get("__slots__", ()) for base in cls.__mro__)
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    return tuple(name for name in names if name not in ("__dict__", "__weakref__") and not name.startswith("__"))


# --- closing ----------------------------------------------------------------------------------------------------------


def _quantized(ints: torch.Tensor, scale: torch.Tensor, zero_point: torch.Tensor) -> Any:
    made: Any = torch._make_per_tensor_quantized_tensor(ints, scale.item(), int(zero_point.item()))
    return made


#: Puts a quantized tensor together.
_MakeQuantized = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]


def closed(tree: Any, quantized: _MakeQuantized = _quantized) -> Any:
    """The structure with new objects in the place of each `Opened`."""
    if _is_ordinary(tree):
        return tree
    leaves, spec = pytree.tree_flatten(tree, is_leaf=lambda node: isinstance(node, Opened))
    if not any(isinstance(leaf, Opened) for leaf in leaves):
        return tree
    made: dict[int, Any] = {}
    return pytree.tree_unflatten([_closed(leaf, made, quantized) for leaf in leaves], spec)


def _closed(leaf: Any, made: dict[int, Any], quantized: _MakeQuantized) -> Any:
    if isinstance(leaf, Opened) and leaf.cls is QuantizedTensor:
        return quantized(*leaf.attributes.values())
    if isinstance(leaf, _Again):
        return made[leaf.number]
    if not isinstance(leaf, Opened):
        return leaf
    # Made before what it holds, which may refer to it.
    result = made[leaf.number] = _new(leaf.cls)
    if isinstance(leaf.items, list):
        list.extend(result, _closed_tree(leaf.items, made, quantized))
    elif leaf.items is not None:
        dict.update(result, _closed_tree(leaf.items, made, quantized))
    attributes = {name: _closed_tree(value, made, quantized) for name, value in leaf.attributes.items()}
    attributes.update((name, dict.__getitem__(result, name)) for name in leaf.mirrored)
    for name, held in attributes.items():
        if name in getattr(result, "__dict__", {}) or name not in _slots(leaf.cls):
            vars(result)[name] = held
        else:
            # Not by `setattr`, which a frozen dataclass refuses.
            object.__setattr__(result, name, held)
    return result


def _closed_tree(tree: Any, made: dict[int, Any], quantized: _MakeQuantized) -> Any:
    leaves, spec = pytree.tree_flatten(tree, is_leaf=lambda node: isinstance(node, Opened))
    return pytree.tree_unflatten([_closed(leaf, made, quantized) for leaf in leaves], spec)


def _new(cls: type) -> Any:
    """A new object of a class, without what its `__init__` or `__new__` would do."""
    base = next((base for base in (dict, list) if issubclass(cls, base)), object)
    try:
        return cast("Any", base).__new__(cls)
    except TypeError:
        raise _not_made_of_attributes(cls) from None


def _not_made_of_attributes(cls: type) -> ArgumentError:
    return ArgumentError(
        f"a {cls.__qualname__} among the arguments or results holds tensors and cannot be taken apart, for it is not "
        "made of attributes: give its tensors in a tuple, list, dict or dataclass"
    )


# --- names ------------------------------------------------------------------------------------------------------------


def children(node: Any) -> list[tuple[str | int, Any]] | None:
    """What a node of a structure holds, by attribute, key or position; None for a leaf."""
    if isinstance(node, Opened):
        items = node.items if node.items is not None else {}
        by_key = list(items.items() if isinstance(items, dict) else enumerate(items))
        return [*by_key, *node.attributes.items()]
    if isinstance(node, Mapping) and type(node) in _ORDINARY:
        return list(node.items())
    if pytree.is_namedtuple_instance(node):
        return list(zip(node._fields, node, strict=True))
    registered = pytree.SUPPORTED_NODES.get(type(node))
    if registered is None:
        return None
    if isinstance(node, list | tuple):
        return list(enumerate(node))
    values, context = registered.flatten_fn(node)
    if registered.flatten_with_keys_fn is not None:
        keys = [_key(key) for key, _ in registered.flatten_with_keys_fn(node)[0]]
    elif isinstance(context, list | tuple) and len(context) == len(values) and all(isinstance(k, str) for k in context):
        keys = list(context)
    else:
        keys = list(range(len(values)))
    return list(zip(keys, values, strict=True))


def _key(key: Any) -> str | int:
    for kind, read in ((pytree.GetAttrKey, "name"), (pytree.MappingKey, "key"), (pytree.SequenceKey, "idx")):
        if isinstance(key, kind):
            return cast("str | int", getattr(key, read))
    return str(key)


def named_leaves(tree: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every leaf with its path, in pytree's order."""
    inside = children(tree)
    if inside is None:
        yield path, tree
        return
    for key, child in inside:
        yield from named_leaves(child, (*path, key))


def has_names(tree: Any) -> bool:
    """Whether a structure holds an object that was opened, or a registered one that is a dict with fixed keys."""
    inside = children(tree)
    if inside is None:
        return False
    if isinstance(tree, Opened) or (isinstance(tree, Mapping) and type(tree) not in _ORDINARY):
        return True
    return any(has_names(child) for _, child in inside)

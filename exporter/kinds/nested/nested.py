"""What nested tensors are while a program is recorded, and how functions of torch that are given some find their rule.

torch's own nested tensors cannot be recorded: a jagged one is a subclass of `torch.Tensor` that reads its offsets, and
functionalization does not see what it computes with its values. While a program is recorded, a `Nested` stands for it,
which is no tensor. Functions and methods of torch call its `__torch_function__`, and this calls the rule for the name
of the function, which computes with the tensors that the nested one consists of.
"""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn, TypeVar

import torch

from onnx_parity.exporter.containers import Whole
from onnx_parity.exporter.graph.origin import refused_here
from onnx_parity.exporter.registry.rules import Aspect, add, load
from onnx_parity.exporter.registry.rules import Rule as RuleOfOperator
from onnx_parity.exporter.torch_inside.code_objects import first_line
from onnx_parity.exporter.torch_inside.frames import asks_for_its_caller

__all__ = [
    "Function",
    "Nested",
    "RaggedSize",
    "Rule",
    "function_that_makes",
    "is_pointwise",
    "makes_nested",
    "nested_in",
    "refused",
]

asks_for_its_caller(__file__)

#: A function of torch.
Function = Callable[..., Any]
#: A rule is called with torch's function, and then its arguments, the first of which may be called `input`.
Rule = Callable[..., Any]
_Rule = TypeVar("_Rule", bound=Rule)

#: Operators of Python that compute each element by itself, and others.
_ARITHMETIC = frozenset(
    {
        "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "radd",
        "rsub", "rmul", "rtruediv", "rfloordiv", "rpow", "rand", "ror", "rxor", "iadd", "isub", "imul", "itruediv",
        "ifloordiv", "eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert",
    }
)  # fmt: skip
_OTHER_OPERATORS = ("matmul", "rmatmul", "getitem", "iter")
#: Functions that compute each element by itself without being pointwise operators of ATen.
_MORE_POINTWISE = frozenset(
    {
        "alpha_dropout", "bfloat16", "bool", "byte", "celu", "char", "clone", "contiguous", "copy", "cpu", "cuda",
        "detach", "double", "dropout", "empty_like", "feature_alpha_dropout", "fill", "float", "full_like", "half",
        "hardsigmoid", "hardswish", "hardtanh", "int", "logsigmoid", "long", "ones_like", "rand_like", "randn_like",
        "relu6", "requires_grad", "rrelu", "selu", "short", "softsign", "tanhshrink", "threshold", "to", "type",
        "type_as", "zero", "zeros_like",
    }
)  # fmt: skip


#: The functions in the place of those that make nested tensors, by the names of these.
_makers: dict[str, Rule] = {}


def makes_nested(name: str) -> Callable[[_Rule], _Rule]:
    """Register the function that is called instead of the one of this name that makes nested tensors in torch."""

    def register(function: _Rule) -> _Rule:
        asks_for_its_caller(first_line(function)[0])
        _makers[name] = function
        add(RuleOfOperator(f"torch.nested.{name}", Aspect.NESTED, function))
        return function

    return register


def function_that_makes(name: str) -> Rule:
    """What `makes_nested` has registered for a name."""
    load(Aspect.NESTED)
    return _makers[name]


class RaggedSize:
    """The size of a ragged axis, which is another for each row. It may be part of a shape, and of nothing else."""

    def __init__(self, of: torch.Tensor) -> None:
        #: The offsets or lengths that say how long the rows are.
        self.of = of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RaggedSize) and other.of is self.of

    def __hash__(self) -> int:
        return id(self.of)

    def __repr__(self) -> str:
        return "ragged"

    def _refuse(self, *_: object) -> NoReturn:
        raise refused_here(
            "the program computes with the size of a ragged axis, which is another for each row: use the lengths of "
            "the rows, nt.offsets().diff()"
        )

    __int__ = __index__ = __bool__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __floordiv__ = __truediv__ = __mod__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = _refuse


class Nested(Whole):
    """A nested tensor of the program."""

    __slots__ = ()

    is_nested = True
    is_sparse = False
    is_quantized = False
    is_mkldnn = False
    refusal_as_result = (
        "the program returns a nested tensor, which ONNX does not have: return nt.values() and nt.offsets(), or "
        "nt.to_padded_tensor(padding)"
    )
    #: The rules of a class of nested tensors, by the names of functions.
    rules: ClassVar[dict[str, Rule]]
    layout: ClassVar[torch.layout]

    @property
    @abstractmethod
    def ndim(self) -> int:
        """The number of axes, the first of which counts the rows."""

    @abstractmethod
    def example(self) -> torch.Tensor:
        """A tensor that has the dtype and the device of the nested one."""

    @abstractmethod
    def rows(self) -> Sequence[torch.Tensor]:
        """The tensors that it consists of."""

    @abstractmethod
    def axis(self, dim: int, name: str) -> int:
        """The axis of each row that is this one of the nested tensor, for the function of this name."""

    @abstractmethod
    def apply(self, func: Callable[..., torch.Tensor], *args: Any, **kwargs: Any) -> Nested:
        """The results of a function that neither moves nor mixes the rows, for the values of these."""

    @abstractmethod
    def pointwise(self, func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The result of a function that computes each element by itself."""

    def dim(self) -> int:
        return self.ndim

    @property
    def dtype(self) -> torch.dtype:
        return self.example().dtype

    @property
    def device(self) -> torch.device:
        return self.example().device

    @property
    def requires_grad(self) -> bool:
        return self.example().requires_grad

    @classmethod
    def rule(cls, *names: str) -> Callable[[_Rule], _Rule]:
        """Register the rule for functions of these names. It compares sizes for its caller."""

        def register(function: _Rule) -> _Rule:
            asks_for_its_caller(first_line(function)[0])
            for name in names:
                assert name not in cls.rules, f"{name} has two rules"
                cls.rules[name] = function
                add(RuleOfOperator(f"torch.Tensor.{name}", Aspect.NESTED, function, f"of {cls.layout} tensors"))
            return function

        return register

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(torch.Tensor, name):
            raise AttributeError(f"a nested tensor has no attribute {name!r}")
        attribute = getattr(torch.Tensor, name)
        if callable(attribute):
            return lambda *args, **kwargs: _call(attribute, (self, *args), kwargs)
        if name.startswith("is_"):
            return getattr(self.example(), name)
        raise refused(name)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})

    def __len__(self) -> Any:
        return self.size(0)

    def __bool__(self) -> NoReturn:
        raise refused("bool()")

    __hash__ = object.__hash__


def _operator(name: str) -> Callable[..., Any]:
    func = getattr(torch.Tensor, f"__{name}__")

    def call(*args: Any) -> Any:
        return _call(func, args, {}, name)

    return call


for _name in (*_ARITHMETIC, *_OTHER_OPERATORS):
    setattr(Nested, f"__{_name}__", _operator(_name))


def nested_in(*arguments: Any) -> Iterator[Nested]:
    """The nested tensors among arguments, also in lists of them."""
    for argument in arguments:
        if isinstance(argument, Nested):
            yield argument
        elif isinstance(argument, (list, tuple)):
            yield from nested_in(*argument)


def _call(func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None) -> Any:
    """Call the rule of a function that is given nested tensors."""
    name = name or func.__name__.strip("_")
    if "input" in kwargs:
        args = (kwargs.pop("input"), *args)
    first = next(nested_in(*args, *kwargs.values()))
    if any(type(other) is not type(first) for other in nested_in(*args, *kwargs.values())):
        raise refused_here(
            f"the program gives {name} nested tensors of two layouts: make both with layout=torch.jagged"
        )
    if kwargs.get("out") is not None:
        raise refused_here(f"the program gives {name} a nested tensor and out=: use what it returns")
    kwargs.pop("out", None)
    load(Aspect.NESTED)
    rule = first.rules.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    if is_pointwise(name):
        return first.pointwise(func, args, kwargs)
    raise refused(name)


@functools.cache
def is_pointwise(name: str) -> bool:
    """Whether a function, method or operator of Python of this name computes each element by itself."""
    if name in _ARITHMETIC or name in _MORE_POINTWISE:
        return True
    packet = getattr(torch.ops.aten, name, None)
    if packet is None:
        return False
    return any(torch.Tag.pointwise in getattr(packet, overload).tags for overload in packet.overloads())


def refused(name: str) -> Exception:
    """The error for a function that there is no rule for."""
    return refused_here(
        f"the program gives a nested tensor to {name}, which the exporter does not have for nested tensors: call it "
        "with nt.to_padded_tensor(padding) and a mask of the padding, or with nt.values() and nt.offsets()"
    )
